"""The figures of the past by tenant: whose are kept, and for how long."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from enum import IntEnum
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, TypeAlias

from django_mq.engine.rollups import HOUR, MINUTE, SIX_HOURS, TEN_MINUTES, Figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: How long the steps of each length are kept, the shortest first: those that a span is made of, and longer steps.
KEPT: Final = {
    MINUTE: timedelta(hours=3),
    TEN_MINUTES: timedelta(hours=9),
    HOUR: timedelta(days=2),
    SIX_HOURS: timedelta(days=8),
}
#: The tenants of a step that are kept are the first so many by each of these measures.
MEASURES: Final = ("accepted", "failed", "dead", "wait_seconds", "run_seconds")
MOST: Final = 100
#: With more queues than this, fewer tenants of each are kept, but never fewer than ``FEWEST``.
MANY_QUEUES: Final = 10
FEWEST: Final = 10
#: The queue's name in the figures of all queues.
ALL_QUEUES: Final = ""
#: To count by tenant costs some microseconds a row. Of a minute with more rows of the past, a sample is counted.
MOST_COUNTED: Final = 30_000
#: So many waiting messages are counted each minute. More are counted less often, but once an hour.
COUNTED_EACH_MINUTE: Final = 25_000
RAREST_COUNT: Final = HOUR


class TenantRow(IntEnum):
    """What a row is about."""

    #: All messages of all queues; the step is known.
    MARK = 0
    TENANT = 1
    #: The tenants whose own figures are not kept.
    OTHERS = 2
    #: Messages without the key.
    NAMELESS = 3


#: The queue, the kind, and the tenant; blank where the kind says it.
Key: TypeAlias = tuple[str, TenantRow, str]
Step: TypeAlias = dict[Key, Figures]


def most_of(queues: int) -> int:
    """Return how many tenants of a queue are kept by each measure, if so many queues have the key.

    >>> most_of(1), most_of(20), most_of(300)
    (100, 50, 10)
    """
    return max(FEWEST, MOST * MANY_QUEUES // max(queues, MANY_QUEUES))


def rows_for_one(rows: int) -> int:
    """Return for how many rows of a minute each row of the sample stands; 1 without a sample.

    >>> rows_for_one(0), rows_for_one(30_000), rows_for_one(1_500_000)
    (1, 1, 50)
    """
    return max(1, -(-rows // MOST_COUNTED))


def merged(steps: Iterable[Step]) -> Step:
    """Return the figures of a step from those of its parts."""
    found: defaultdict[Key, Figures] = defaultdict(Figures)
    for step in steps:
        for key, figures in step.items():
            found[key].add(figures, beside=False)
    return with_few_tenants(found)


def with_few_tenants(step: Mapping[Key, Figures]) -> Step:
    """Return the figures of the first tenants of each queue by each measure, and those of the others as one.

    The statement that sums up a minute has the same rule. Only tenants have a histogram.
    """
    tenants: defaultdict[str, dict[str, Figures]] = defaultdict(dict)
    for (queue, kind, tenant), figures in step.items():
        if kind is TenantRow.TENANT:
            tenants[queue][tenant] = figures
    most = most_of(len(tenants.keys() - {ALL_QUEUES}))
    kept = {queue: _first(found, MOST if queue == ALL_QUEUES else most) for queue, found in tenants.items()}
    found: defaultdict[Key, Figures] = defaultdict(Figures)
    for key, figures in step.items():
        queue, kind, tenant = key
        if kind is not TenantRow.TENANT or tenant in kept[queue]:
            found[key].add(figures, beside=True)
        else:
            found[queue, TenantRow.OTHERS, ""].add(replace(figures, waits={}), beside=True)
    return dict(found)


def _first(tenants: Mapping[str, Figures], most: int) -> set[str]:
    """Return the first tenants by each measure."""
    if len(tenants) <= most:
        return {*tenants}
    names: set[str] = set()
    for measure in MEASURES:
        values = {name: getattr(figures, measure) for name, figures in tenants.items()}
        positive = (name for name, value in values.items() if value > 0)
        names.update(nsmallest(most, positive, key=lambda name: (-values[name], name)))
    return names


def is_count_due(messages: int, age: timedelta) -> bool:
    """Return whether to count what waits by tenant again, if the last count found so many and is so old.

    >>> is_count_due(5000, MINUTE), is_count_due(500_000, TEN_MINUTES), is_count_due(500_000, 2 * TEN_MINUTES)
    (True, False, True)
    """
    return age >= min(max(MINUTE * (messages / COUNTED_EACH_MINUTE), MINUTE / 2), RAREST_COUNT)
