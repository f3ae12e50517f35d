"""The prose of the repository: docstrings, comments, help texts and pages of the documentation."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
#: Pages that name old words on purpose.
EXCEPT = ("docs/changelog.md", "docs/contributing.md")


@cache
def lines() -> list[tuple[str, str]]:
    """Return each line of prose, after its file and number."""
    return list(_lines())


def _lines() -> Iterator[tuple[str, str]]:
    for folder in ("django_mq", "tests", "example_project"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield from _placed(path, _python(path.read_text()))
    for path in sorted((ROOT / "django_mq").rglob("*.sql")):
        rows = enumerate(path.read_text().splitlines(), 1)
        yield from _placed(path, ((number, row) for number, row in rows if row.lstrip().startswith("--")))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if str(path.relative_to(ROOT)) not in EXCEPT:
            yield from _placed(path, enumerate(path.read_text().splitlines(), 1))


def _placed(path: Path, rows: Iterator[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    name = path.relative_to(ROOT)
    return ((f"{name}:{number}", row.strip()) for number, row in rows)


def _python(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node):
                    yield from _text(node.body[0].value)  # type: ignore[attr-defined]
            case ast.keyword(arg="help", value=ast.Constant() as value):
                yield from _text(value)


def _text(constant: ast.Constant) -> Iterator[tuple[int, str]]:
    return enumerate(str(constant.value).splitlines(), constant.lineno)
