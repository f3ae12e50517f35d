"""Words and columns for a terminal: nothing that a message contains may drive it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Categories of characters that steer a terminal, change the direction of text or show nothing.
UNPRINTABLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
#: Sizes of the units of a span of time, in seconds.
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Return aligned columns under their headings; the columns in ``right`` are aligned to the right."""
    lines = [list(headings), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    ends = set(right)
    return "\n".join(_line(line, widths, ends) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: set[int]) -> str:
    placed = (
        cell.rjust(width) if number in right else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(placed).rstrip()


def printable(text: str) -> str:
    """Return the text with every control character spelt out, as in a Python string."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelt(character) for character in text)


def _spelt(character: str) -> str:
    if unicodedata.category(character) not in UNPRINTABLE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, width: int) -> str:
    """Return the text in at most so many characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def bounded(count: int, limit: int) -> str:
    """Return a count that stopped at ``limit``: ``10,000+`` there."""
    return f"{count:,}+" if count >= limit else f"{count:,}"


def span(seconds: float | None) -> str:
    """Return a span of time in its two largest units: ``3 d 4 h``, ``2 min 5 s``, ``0 s``."""
    if seconds is None:
        return "-"
    left = max(0, int(seconds))
    parts: list[tuple[int, str]] = []
    for size, unit in UNITS:
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount) or "0 s"


def precise(seconds: float | None) -> str:
    """Return a span of time that may be short: ``3.2 ms``, ``1.25 s``, ``2 min 5 s``."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 60 else span(seconds)


def plural(count: int, noun: str) -> str:
    """Return ``1 message``, ``2 messages``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
