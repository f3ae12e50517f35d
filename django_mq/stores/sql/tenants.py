"""The figures of the past by tenant: sums over the history, the failed attempts and the search keys."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.histograms import as_text, merged
from django_mq.engine.rollups import MINUTE, Figures
from django_mq.engine.tenants import ALL_QUEUES, MOST, TenantRow, most_of
from django_mq.stores.records import time_of
from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django_mq.engine.tenants import Key, Step

#: The figures that are columns as they are.
WRITTEN = ("accepted", "failed", "dead", "wait_seconds", "run_seconds")
#: The length of the rows with what waits now.
NOW = timedelta(0)


@dataclass(frozen=True, slots=True)
class TenantsOf:
    """The key that names the tenants, and the queues whose messages have it."""

    key: str
    queues: Sequence[str]

    @property
    def params(self) -> dict[str, Any]:
        queues = list(self.queues)
        return {"key": self.key, "queues": queues, "most": MOST, "most_of_queue": most_of(len(queues))}


class WaitingCount(NamedTuple):
    """When the waiting messages were counted by tenant, and how many there were."""

    time: datetime
    messages: int


class TenantMark(NamedTuple):
    """What is known of a step that has been summed up by tenant."""

    #: How many rows of the past there were in a minute; 0 in longer steps.
    counted: int
    #: For how many rows each row of the sample stands.
    every: int


class TenantSteps(Part):
    def forget_other_keys(self, key: str) -> None:
        """Delete all figures if some are of another key."""
        if self.rows("other_tenant_keys", key=key):
            self.rows("forget_tenants")

    def known(self, step: timedelta, since: datetime) -> dict[datetime, TenantMark]:
        """Return the known steps of a length since a time."""
        rows = self.rows("tenant_marks", seconds=_seconds(step), since=since)
        return {time_of(begin): TenantMark(*mark) for begin, *mark in rows}

    def sums(self, minute: datetime, tenants: TenantsOf, every: int = 1) -> Step:
        """Return the figures of a minute by queue and tenant, from a sample: each row stands for ``every``."""
        found: defaultdict[Key, Figures] = defaultdict(Figures)
        span = {"start": minute, "end": minute + MINUTE, "every": every}
        for queue, kind, name, waited, *values in self.rows("sum_tenants", **tenants.params, **span):
            accepted, failed, dead, wait_ms, run_ms = (every * value for value in values)
            if not (accepted or failed or dead):
                continue
            figures = found[queue, TenantRow(kind), name]
            figures.accepted += int(accepted)
            figures.failed += int(failed)
            figures.dead += int(dead)
            figures.wait_seconds += float(wait_ms) / 1000
            figures.run_seconds += float(run_ms) / 1000
            if waited is not None:
                figures.waits[str(int(waited))] = int(accepted)
        return dict(found)

    def steps(self, step: timedelta, start: datetime, end: datetime) -> Iterator[Step]:
        """Yield the figures of the steps of a length within a span."""
        found: defaultdict[datetime, Step] = defaultdict(dict)
        span = {"seconds": _seconds(step), "start": start, "end": end}
        for begin, queue, kind, name, *values in self.rows("read_tenant_steps", **span):
            *counts, waits = values
            figures = Figures(**dict(zip(WRITTEN, counts, strict=True)), waits=merged([waits]))
            found[begin][queue, TenantRow(kind), name] = figures
        yield from found.values()

    def write(self, key: str, step: timedelta, begin: datetime, figures: Step, mark: TenantMark) -> None:
        """Write the figures of a step in place of those that are there."""
        common = {"seconds": _seconds(step), "start": begin, "waiting": None, "every": mark.every}
        total = Figures()
        for (queue, _kind, _name), each in figures.items():
            if queue == ALL_QUEUES:
                total.add(each, beside=True)
        with self.database.transaction():
            self.rows("forget_tenant_step", seconds=_seconds(step), start=begin)
            row = {**common, **_mark(key), **_values(total)}
            if self.database.insert("write_tenant_mark", **row, counted=mark.counted):
                common |= {"counted": 0}
                rows = [{**common, **_named(named), **_values(each)} for named, each in figures.items()]
                self.database.insert_many("write_tenant_rows", rows)

    def count_waiting(self, tenants: TenantsOf) -> dict[Key, int]:
        """Return how many messages wait now, by queue and tenant."""
        rows = self.rows("count_waiting_tenants", **tenants.params)
        return {(queue, TenantRow(kind), name): int(number) for queue, kind, name, number in rows}

    def counted_waiting(self) -> WaitingCount | None:
        """Return what the last count of waiting messages was."""
        rows = self.rows("last_waiting_count")
        return WaitingCount(time_of(rows[0][0]), rows[0][1]) if rows else None

    def write_waiting(self, key: str, time: datetime, waiting: Mapping[Key, int]) -> None:
        """Write what waits by tenant in place of the count before."""
        common = {"seconds": _seconds(NOW), "start": time, "counted": 0, "every": 1, **_values(Figures())}
        total = sum(number for (queue, _kind, _name), number in waiting.items() if queue == ALL_QUEUES)
        with self.database.transaction():
            self.rows("forget_waiting_tenants")
            if self.database.insert("write_tenant_mark", **common, **_mark(key), waiting=total):
                every = [{**common, "waiting": number, **_named(row)} for row, number in waiting.items()]
                self.database.insert_many("write_tenant_rows", every)

    def prune(self, step: timedelta, before: datetime, limit: int, queues: Sequence[str] | None = None) -> int:
        """Delete the steps of a length that begin before a time, of some queues or whole; return how many rows."""
        params = {"seconds": _seconds(step), "before": before, "limit": limit}
        if queues is None:
            return len(self.rows("prune_tenant_steps", **params))
        return len(self.rows("prune_tenants_with_history", **params, queues=list(queues)))


def _seconds(step: timedelta) -> int:
    return int(step.total_seconds())


def _mark(key: str) -> dict[str, Any]:
    """Return what names the row that says that a step is known; it has the search key in place of a tenant."""
    return _named((ALL_QUEUES, TenantRow.MARK, key))


def _named(key: Key) -> dict[str, Any]:
    queue, kind, name = key
    return {"queue": queue, "kind": kind.value, "tenant": name}


def _values(figures: Figures) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in WRITTEN} | {"waits": as_text(figures.waits)}
