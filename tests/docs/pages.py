"""Read the pages of the documentation: their examples and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`([\w/]+\.py)`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and the last file that the text before it names."""

    language: str
    text: str
    file: str | None


def pages() -> list[Path]:
    """Return every page, the README first."""
    written = (page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts)
    return [README, *written]


def name(page: Path) -> str:
    """Return a page's name as a test's id shows it."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return a page's blocks in these languages, in order."""
    text = page.read_text(encoding="utf-8")
    found, end = [], 0
    for match in _BLOCK.finditer(text):
        named = _FILE.findall(text[end : match.start()])
        found.append(Block(match[1], match[2], named[-1] if named else None))
        end = match.end()
    return [block for block in found if block.language in languages]


def python(page: Path) -> list[str]:
    """Return a page's Python examples."""
    return [block.text for block in blocks(page, "python")]


def rows(page: Path, heading: str) -> dict[str, list[str]]:
    """Return the table under a heading: the first cell of each row to the others, both without backquotes."""
    section = page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    return {first.strip("`|"): [cell.strip("|").strip() for cell in others] for first, *others in cells}
