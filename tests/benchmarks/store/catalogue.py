"""What can be measured: the names, the function that measures them, and about how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from django.db import connections

from django_mq.benchmarks.measures import Measure
from tests.benchmarks.store.figures import NAMES, TARGETS, judged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tests.benchmarks.store.environment import Environment
    from tests.benchmarks.store.figures import Judged


@dataclass(frozen=True, slots=True)
class Measuring:
    """One function that yields one measure or several."""

    names: tuple[str, ...]
    module: str
    function: str
    #: About how long a full run and a quick one take, in seconds.
    full_seconds: int
    quick_seconds: int
    #: Whether it wants millions of rows, and so tables that are thrown away as a whole.
    is_large: bool = False

    def seconds(self, *, quick: bool, large: bool) -> int:
        """Return about how long it takes; ``large``: whether there are such tables."""
        if self.is_large and not large:
            return 0
        return self.quick_seconds if quick else self.full_seconds

    def run(self, environment: Environment) -> Iterator[Judged]:
        """Measure and judge; what the function leaves out is reported as not measured."""
        missing, targets = set(self.names), TARGETS[connections[environment.alias].vendor]
        for measure in getattr(import_module(f"tests.benchmarks.store.{self.module}"), self.function)(environment):
            missing.discard(measure.name)
            yield judged(measure, targets)
        yield from (judged(Measure(name, None, ""), targets) for name in self.names if name in missing)


#: In the order of the report.
MEASURINGS = (
    Measuring(("publish_one",), "publishing", "measure_one", 10, 2),
    Measuring(("publish_unique",), "publishing", "measure_unique", 10, 2),
    Measuring(("publish_many",), "publishing", "measure_many", 15, 2),
    Measuring(("drain_one",), "draining", "measure_one", 45, 5),
    Measuring(("drain_two",), "draining", "measure_two", 45, 6),
    Measuring(("drain_one_group", "drain_many_groups"), "draining", "measure_groups", 60, 10),
    Measuring(("drain_bulk",), "bulks", "measure", 45, 6),
    Measuring(("publish_fair", "publish_fair_many", "drain_fair"), "sharing", "measure", 90, 15),
    Measuring(("drain_limited",), "limiting", "measure_drain", 20, 10),
    Measuring(("pickup_p50", "pickup_p99"), "picking_up", "measure", 20, 4),
    Measuring(("claim_10m_ready",), "claiming", "measure_ready", 400, 6, is_large=True),
    Measuring(("claim_1m_scheduled",), "claiming", "measure_scheduled", 80, 6, is_large=True),
    Measuring(("claim_after_churn",), "churning", "measure", 700, 6, is_large=True),
    Measuring(("claim_beside_parked",), "limiting", "measure_parked", 60, 20, is_large=True),
    Measuring(("wakeups_per_message", "claims_per_message"), "waking", "measure", 40, 8),
    Measuring(("idle_statements",), "idling", "measure", 75, 8),
    Measuring(("worker_memory_mib",), "remembering", "measure", 400, 6, is_large=True),
)


def chosen(names: Collection[str]) -> list[Measuring]:
    """Return what measures these names, all of them if none is given. Raises ValueError."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise ValueError(f"There is no measure {', '.join(unknown)}; there are {', '.join(NAMES)}.")
    return [item for item in MEASURINGS if not names or set(item.names) & set(names)]
