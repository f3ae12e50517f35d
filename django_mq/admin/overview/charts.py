"""Draw figures over time as SVG, so that no page needs a JavaScript library.

``charts.js`` adds what happens under the pointer and at a click.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from django.utils.timezone import localtime

from django_mq.diagnosis.language import LOCAL, day_text, digits, minute_text, short_time_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

WIDTH, HEIGHT = 600, 120
#: The top of a scale is one of these numbers, multiplied by a power of ten.
ROUND = (1.0, 2.0, 5.0, 10.0)
#: The scale is made for this share of the values, if the largest is so many times as large as those.
USUAL, SPIKE = 0.97, 3.0
#: The most labels of the time below a chart, and the times that may lie between two of them.
MOST_TICKS = 5
#: How near to an end of the axis a label would be cut off.
EDGE = 0.05
DAY = timedelta(days=1)
BETWEEN_TICKS = (
    *(timedelta(minutes=number) for number in (5, 10, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 6, 12)),
    *(timedelta(days=number) for number in (1, 2, 7)),
)


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a figure over time, and those of an earlier time beside them. A value of None is a gap."""

    name: str
    label: str
    values: Sequence[float | None]
    #: Whether a gap at the end means that the latest value is unknown.
    ends_unknown: bool = False
    before: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line as an SVG path, its values between two gaps as another, and its latest value as text."""

    name: str
    label: str
    path: str
    dots: str
    latest: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened. The name is that of its style."""

    time: datetime
    label: str
    name: str = "act"


@dataclass(frozen=True, slots=True)
class Axis:
    """The times of a chart, what happened then, and where a click and a drawn range lead, without their times."""

    times: Sequence[datetime]
    step: timedelta
    marks: Sequence[Mark] = ()
    address: str = ""
    zoom: str = ""

    @property
    def length(self) -> timedelta:
        return self.step * len(self.times)

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """The places of labels in percent, and the labels: round times, as clocks at the site show them."""
        every = next((each for each in BETWEEN_TICKS if self.length / each <= MOST_TICKS), BETWEEN_TICKS[-1])
        first = localtime(self.times[0]).replace(hour=0, minute=0, second=0, microsecond=0)
        first -= timedelta(days=first.toordinal() % max(every.days, 1))
        found = [first + every * number for number in range(ceil((self.length + every + DAY) / every))]
        placed = [(self.place(time), _tick(time, every)) for time in found]
        return [(f"{100 * place:.1f}", text) for place, text in placed if EDGE < place < 1 - EDGE]

    @property
    def placed_marks(self) -> list[tuple[str, Mark]]:
        """The marks within the times, with their places in percent."""
        found = [(self.place(mark.time), mark) for mark in self.marks]
        return [(f"{100 * place:.1f}", mark) for place, mark in found if 0 <= place <= 1]

    def text(self, mark: Mark) -> str:
        """Return when something happened, and what: with the day, if there are several."""
        return f"{moment_text(mark.time, DAY if self.length > DAY else self.step)}: {mark.label}"

    def place(self, time: datetime) -> float:
        """Return the place of a time: 0 at the begin, 1 at the end."""
        return (time - self.times[0]) / self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines with a title, and the texts at the top of the scale and at both ends of the time."""

    title: str
    lines: list[Drawn]
    top: str
    half: str
    begins: str
    ends: str
    #: The largest value, if the scale cuts it off.
    peak: str = ""
    ticks: list[tuple[str, str]] = field(default_factory=list)
    marks: list[tuple[str, Mark]] = field(default_factory=list)
    #: What the script shows and where it leads, as JSON.
    data: str = ""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def summary(self) -> str:
        """The text for a screen reader."""
        return f"{self.title}: " + ", ".join(f"{line.label} {line.latest}" for line in self.lines)


def draw(
    title: str, lines: Sequence[Line], *, unit: str, begins: str = "", ends: str = "", axis: Axis | None = None
) -> Chart:
    """Draw lines of equal length on a scale from zero."""
    known = [value for line in lines for value in (*line.values, *line.before) if value is not None]
    top = scale_end(usual_end(known))
    largest = max(known, default=0.0)
    drawn = [
        Drawn(line.name, line.label, *paths(line.values, top), _latest(line, unit), paths(line.before, top)[0])
        for line in lines
    ]
    return Chart(
        title=title,
        lines=drawn,
        top=figure(top, unit),
        half=figure(top / 2, unit),
        peak=figure(largest, unit) if largest > top else "",
        begins=begins,
        ends=ends,
        ticks=axis.ticks if axis else [],
        marks=axis.placed_marks if axis else [],
        data=_data(axis, lines, unit) if axis else "",
    )


def _data(axis: Axis, lines: Sequence[Line], unit: str) -> str:
    texts = [
        {"label": line.label, "values": _texts(line.values, unit), "before": _texts(line.before, unit)}
        for line in lines
    ]
    return json.dumps({**axis_data(axis), "lines": texts})


def _texts(values: Sequence[float | None], unit: str) -> list[str]:
    return ["-" if value is None else figure(value, unit) for value in values]


def axis_data(axis: Axis) -> dict[str, Any]:
    """Return what the script needs of an axis."""
    return {
        "times": [moment_text(time, axis.step) for time in axis.times],
        "begin": axis.times[0].timestamp(),
        "step": axis.step.total_seconds(),
        "address": axis.address,
        "zoom": axis.zoom,
        "marks": [[float(place), axis.text(mark)] for place, mark in axis.placed_marks],
    }


def usual_end(values: Sequence[float]) -> float:
    """Return the largest value that the scale has to show: single ones far above all others are cut off."""
    if not values:
        return 0.0
    ordered = sorted(values)
    usual = ordered[ceil(USUAL * len(ordered)) - 1]
    return ordered[-1] if ordered[-1] <= SPIKE * usual or usual <= 0 else usual


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
    if unit == "s":
        return LOCAL.precise(value)
    return f"{digits(value)}{unit}" if unit.startswith("/") else f"{digits(value)} {unit}".rstrip()


def moment_text(time: datetime, step: timedelta) -> str:
    """Return a time of a chart: with its day, if the steps are long."""
    return short_time_text(time) if step >= timedelta(hours=1) else minute_text(time)


def _tick(time: datetime, every: timedelta) -> str:
    return day_text(time) if every >= DAY else minute_text(time)


#: The darkest cell of a heat map.
LEVELS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """A row of a heat map: its cells as SVG paths by level, where its name leads, and its values as JSON."""

    name: str
    address: str
    paths: list[tuple[int, str]]
    data: str
    #: The largest value, and how many cells there are.
    total: str
    columns: int


def heat_rows(
    rows: Sequence[tuple[str, Sequence[float | None]]], addresses: Sequence[str], axis: Axis, unit: str
) -> list[HeatRow]:
    """Draw the rows of a heat map. All have one scale, which single large values do not flatten."""
    top = usual_end([value for _, values in rows for value in values if value]) or 1.0
    common = axis_data(axis)
    return [
        _heat_row(name, values, top, unit, {**common, "address": address})
        for (name, values), address in zip(rows, addresses, strict=True)
    ]


def _heat_row(name: str, values: Sequence[float | None], top: float, unit: str, data: dict[str, Any]) -> HeatRow:
    cells: dict[int, list[str]] = {}
    for number, value in enumerate(values):
        if value:
            level = min(LEVELS, ceil(LEVELS * value / top))
            cells.setdefault(level, []).append(f"M{number} 0h1v1h-1z")
    largest = max((value for value in values if value is not None), default=0.0)
    return HeatRow(
        name=name,
        address=data["address"],
        paths=[(level, "".join(found)) for level, found in sorted(cells.items())],
        data=json.dumps({**data, "lines": [{"label": name, "values": _texts(values, unit), "before": []}]}),
        total=figure(largest, unit),
        columns=len(values),
    )
