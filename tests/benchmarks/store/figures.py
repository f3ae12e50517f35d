"""The names of the measures, what each should reach, and a table of them that can be read while it grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.benchmarks.measures import Measure

#: Measures whose ratio to the raw limit should be high.
HIGH = (
    "publish_one",
    "publish_unique",
    "publish_many",
    "drain_one",
    "drain_two",
    "drain_one_group",
    "drain_many_groups",
    "drain_bulk",
    "publish_fair",
    "publish_fair_many",
    "drain_fair",
    "drain_limited",
)
#: Measures whose ratio to the raw limit should be low.
LOW = (
    "pickup_p50",
    "pickup_p99",
    "claim_10m_ready",
    "claim_1m_scheduled",
    "claim_after_churn",
    "claim_beside_parked",
)
#: Measures whose value should be low: these have no raw limit.
PLAIN = ("wakeups_per_message", "claims_per_message", "idle_statements", "worker_memory_mib")
NAMES = HIGH + LOW + PLAIN

#: Each measure has one.
ON_POSTGRESQL = {
    "publish_one": 0.75,
    "publish_unique": 0.75,
    "publish_many": 0.5,
    "drain_one": 0.6,
    "drain_two": 0.6,
    "drain_one_group": 0.1,
    "drain_many_groups": 0.5,
    "drain_bulk": 0.7,
    "publish_fair": 0.2,
    "publish_fair_many": 0.5,
    "drain_fair": 0.7,
    "drain_limited": 0.33,
    "pickup_p50": 1.5,
    "pickup_p99": 3.0,
    "claim_10m_ready": 1.15,
    "claim_1m_scheduled": 1.15,
    "claim_after_churn": 1.5,
    "claim_beside_parked": 1.2,
    "wakeups_per_message": 1.05,
    "claims_per_message": 1.1,
    "idle_statements": 60.0,
    "worker_memory_mib": 20.0,
}
#: Targets on SQLite, which has one writer at a time; other figures are reported only.
ON_SQLITE = {"publish_one": 0.6, "publish_unique": 0.75, "drain_one": 0.4}
#: All is reported.
ON_MYSQL = {}
#: By the vendor of a connection.
TARGETS: Mapping[str, Mapping[str, float]] = {"postgresql": ON_POSTGRESQL, "sqlite": ON_SQLITE, "mysql": ON_MYSQL}


@dataclass(frozen=True, slots=True)
class Judged:
    """A measure with its target: for its ratio or, where it has no limit, for its value."""

    measure: Measure
    #: None where this kind of database has none.
    target: float | None
    #: Whether the target is the least that should be reached, not the most.
    at_least: bool

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none, or nothing to compare with it."""
        figure = self.measure.value if self.measure.limit is None else self.measure.ratio
        if self.target is None or figure is None:
            return None
        return figure >= self.target if self.at_least else figure <= self.target

    def as_json(self) -> dict[str, Any]:
        measure = self.measure
        return {
            "name": measure.name,
            "value": measure.value,
            "unit": measure.unit,
            "limit": measure.limit,
            "ratio": measure.ratio,
            "target": self.target,
            "met": self.met,
            "runs": list(measure.runs),
        }


def judged(measure: Measure, targets: Mapping[str, float]) -> Judged:
    """Return the measure with its target. A rate without a limit has nothing to compare with it."""
    has_figure = measure.name in PLAIN or measure.limit is not None
    return Judged(measure, targets.get(measure.name) if has_figure else None, measure.name in HIGH)


#: What stands behind a target: nothing where nothing could be measured.
VERDICTS = {True: " met", False: " MISSED", None: ""}
#: Of the columns, in characters.
WIDTHS = (22, 24, 24, 8, 12)


def heading(*, targets: bool = False) -> str:
    """Return the first line."""
    return _line("measure", "value", "raw limit, this run", "ratio", *(["target"] if targets else []))


def reported(judged: Judged, *, targets: bool = False) -> str:
    """Return the line of a measure, with its target if it is asked for."""
    measure = judged.measure
    value = "not measured here" if measure.value is None else f"{measure.value:,.2f} {measure.unit}"
    limit = "-" if measure.limit is None else f"{measure.limit:,.2f} {measure.unit}"
    ratio = "-" if measure.ratio is None else f"{measure.ratio:.2f}"
    target = "-" if judged.target is None else f"{judged.target:g}{VERDICTS[judged.met]}"
    return _line(measure.name, value, limit, ratio, *([target] if targets else []))


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=False)) + " |"
