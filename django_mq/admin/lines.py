"""Lines drawn on the server: a picture needs no script, and an empty one says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 720, 120


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name, and its points as SVG wants them. Where nothing is known it is broken."""

    name: str
    number: int
    pieces: list[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of values over hours; ``most`` is the value at the top."""

    title: str
    unit: str
    most: float
    lines: list[Line]
    first: str
    last: str
    width: int = WIDTH
    height: int = HEIGHT


def chart(title: str, unit: str, hours: Sequence[str], **series: Sequence[float | None]) -> Chart:
    """Return the chart of one or more series, one value for each hour."""
    most = max((value for values in series.values() for value in values if value is not None), default=0.0)
    lines = [
        Line(name.replace("_", " "), number, pieces(values, most))
        for number, (name, values) in enumerate(series.items(), start=1)
    ]
    return Chart(title, unit, most, lines, hours[0] if hours else "", hours[-1] if hours else "")


def pieces(values: Sequence[float | None], most: float) -> list[str]:
    """Return the points of each unbroken run of values.

    >>> pieces([0, 5, None, 10], 10)
    ['0.0,120.0 240.0,60.0', '720.0,0.0']
    """
    step = WIDTH / max(1, len(values) - 1)
    found: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            found.append([])
        else:
            height = HEIGHT * (1 - value / most) if most else HEIGHT
            found[-1].append(f"{number * step:.1f},{height:.1f}")
    return [" ".join(piece) for piece in found if piece]
