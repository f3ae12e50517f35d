"""A recorded day, and the figures of what happened and of what a scenario makes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django_mq.engine.decisions.places import level_of
from django_mq.engine.states import Cause
from django_mq.pipeline.whatif import keys as known
from django_mq.pipeline.whatif.simulation import Arrival, Simulated, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from django_mq.pipeline.whatif.scenario import Scenario

#: The name of the recorded day in the report.
REALITY: Final = "what happened"
#: The columns of a row of figures, in Spark's words.
SCHEMA: Final = (
    "scenario string, class int, messages bigint, mean double, p50 double, p95 double, p99 double,"
    " losses map<string, bigint>, key string, share double"
)
#: The class of all messages, and of those of a key.
ALL: Final = -1
#: A row of ``SCHEMA``.
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RecordedDay:
    """The messages of a recorded day, in the order of their arrival."""

    trace: Sequence[Arrival]
    #: What happened: how long each message waited, and why it was not done.
    reality: Simulated
    classes: Sequence[int]
    #: The key of each message, if there are keys.
    keys: Sequence[str | None] | None

    @classmethod
    def of(cls, table: pa.Table, levels: int, by: str | None) -> RecordedDay:
        import numpy as np

        priorities = _numbers(table, "priority")
        level = {priority: level_of(priority, levels) for priority in set(priorities)}
        waited, service = np.array(_numbers(table, "waited")), np.array(_numbers(table, "service"))
        # What a limit removed was never handled: it would have taken as long as others.
        removed = np.isnan(service)
        service[removed] = np.median(service[~removed]) if not removed.all() else 0.0
        has_messages = any(name in table.schema.names for name in known.COLUMNS)
        messages = [*known.messages_of(table)] if has_messages else [None] * len(priorities)
        return cls(
            [*map(Arrival, _numbers(table, "at"), priorities, service.tolist(), messages)],
            Simulated(waited.tolist(), [Cause.LIMITED.value if gone else None for gone in removed]),
            [level[priority] for priority in priorities],
            None if by is None else [known.key_of(by, message) for message in messages if message is not None],
        )

    def spreads(self, scenario: Scenario | None) -> list[Row]:
        """Return the rows of a scenario, or of what happened."""
        name, faster = (REALITY, 1.0) if scenario is None else (scenario.name, scenario.arrivals)
        found = self.reality if scenario is None else simulate(self.trace, scenario)
        rows = spreads(name, found, self.classes)
        if self.keys is not None:
            rows += spreads_of_keys(name, found, self.keys, [each.at / faster for each in self.trace])
        return rows


def spreads(name: str, found: Simulated, classes: Sequence[int]) -> list[Row]:
    """Return a row for all messages and one for each class.

    It has the number of waits, their mean and percentiles, and the losses by reason.
    """
    import numpy as np

    waits, levels = np.array(found.waits, dtype=float), np.array(classes)
    everything = _row(name, ALL, waits, Counter(filter(None, found.losses)))
    losses: dict[int, Counter[str]] = {level: Counter() for level in sorted(set(classes))}
    for level, loss in zip(classes, found.losses, strict=True):
        if loss is not None:
            losses[level][loss] += 1
    return [everything, *(_row(name, level, waits[levels == level], lost) for level, lost in losses.items())]


def spreads_of_keys(
    name: str, found: Simulated, keys: Sequence[str | None], arrived: Sequence[float]
) -> list[Row]:
    """Return a row for each of the most common keys, and one for all others together."""
    import numpy as np

    names, waits = np.array(known.named(keys)), np.array(found.waits, dtype=float)
    contended = np.array(known.shares(keys, arrived, found.waits))
    total = contended.sum()
    rows = []
    for key in sorted(set(names.tolist())):
        mine = names == key
        lost = Counter(loss for loss, is_mine in zip(found.losses, mine, strict=True) if is_mine and loss)
        share = float(contended[mine].sum() / total) if total else None
        rows.append((*_row(name, ALL, waits[mine], lost)[:-2], key, share))
    return rows


def _row(name: str, level: int, waits: Any, lost: Counter[str]) -> Row:
    """Return the row of some waits, of which those of messages that were never handled are NaN."""
    import numpy as np

    values = waits[~np.isnan(waits)]
    spread: list[float | None] = [None] * 4
    if len(values):
        spread = [float(values.mean()), *np.percentile(values, [50, 95, 99]).tolist()]
    return (name, level, len(values), *spread, dict(lost), None, None)


def _numbers(table: pa.Table, name: str) -> list[Any]:
    """Return a column's numbers, through numpy: Arrow makes a scalar object of each first."""
    found: list[Any] = table.column(name).to_numpy().tolist()
    return found
