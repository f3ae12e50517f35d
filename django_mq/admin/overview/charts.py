"""Draw figures over time as SVG paths, so that no page needs a JavaScript library."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING

from django_mq.diagnosis.language import LOCAL, digits

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 600, 120
#: The top of a scale is one of these numbers, multiplied by a power of ten.
ROUND = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a figure over time. A value of None is a gap."""

    name: str
    label: str
    values: Sequence[float | None]
    #: Whether a gap at the end means that the latest value is unknown.
    ends_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line as an SVG path, its values between two gaps as another, and its latest value as text."""

    name: str
    label: str
    path: str
    dots: str
    latest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines with a title, and the texts at the top of the scale and at both ends of the time."""

    title: str
    lines: list[Drawn]
    top: str
    begins: str
    ends: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def summary(self) -> str:
        """The text for a screen reader."""
        return f"{self.title}: " + ", ".join(f"{line.label} {line.latest}" for line in self.lines)


def draw(title: str, lines: Sequence[Line], *, unit: str, begins: str, ends: str) -> Chart:
    """Draw lines of equal length on a scale from zero."""
    known = [value for line in lines for value in line.values if value is not None]
    top = scale_end(max(known, default=0.0))
    drawn = [Drawn(line.name, line.label, *paths(line.values, top), _latest(line, unit)) for line in lines]
    return Chart(title=title, lines=drawn, top=figure(top, unit), begins=begins, ends=ends)


def scale_end(largest: float) -> float:
    """Return the smallest round number that is not below ``largest``; 1 for 0."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** floor(log10(largest))
    return next(step * power for step in ROUND if largest <= step * power)


def paths(values: Sequence[float | None], top: float) -> tuple[str, str]:
    """Return the SVG path of the values, with a break at each gap, and that of the values between two gaps."""
    step = WIDTH / max(len(values) - 1, 1)
    runs: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{number * step:.1f} {HEIGHT - HEIGHT * min(value, top) / top:.1f}")
    lines = "".join(f"M{'L'.join(run)}" for run in runs if len(run) > 1)
    return lines, "".join(f"M{run[0]}h0" for run in runs if len(run) == 1)


def _latest(line: Line, unit: str) -> str:
    values = line.values[-1:] if line.ends_unknown else line.values
    last = next((value for value in reversed(values) if value is not None), None)
    return "-" if last is None else figure(last, unit)


def figure(value: float, unit: str) -> str:
    """Return a number with about three digits and its unit."""
    return LOCAL.precise(value) if unit == "s" and value < 1 else f"{digits(value)} {unit}"
