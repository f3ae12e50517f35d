"""Measures as lines of a table that can be read while it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mq.benchmarks.measuring import Measure

#: What stands behind a target: nothing where nothing could be measured.
VERDICTS = {True: " met", False: " MISSED", None: ""}
#: Of the columns, in characters.
WIDTHS = (22, 24, 24, 8, 12)


def heading() -> str:
    """Return the first line."""
    return _line("measure", "value", "raw limit, this run", "ratio", "target")


def reported(measure: Measure) -> str:
    """Return the line of a measure."""
    value = "not measured here" if measure.value is None else f"{measure.value:,.2f} {measure.unit}"
    limit = "-" if measure.limit is None else f"{measure.limit:,.2f} {measure.unit}"
    ratio = "-" if measure.ratio is None else f"{measure.ratio:.2f}"
    target = "-" if measure.target is None else f"{measure.target:g}{VERDICTS[measure.met]}"
    return _line(measure.name, value, limit, ratio, target)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)) + " |"
