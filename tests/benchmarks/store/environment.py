"""The environment of a benchmark: the database, its raw limits, the amounts, and a progress function."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connections

from django_mq.benchmarks.measures import bench_queue
from tests.benchmarks.store.raw import raw_table
from tests.benchmarks.store.schema import own_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.store.raw import RawTable


@dataclass(frozen=True, slots=True)
class Environment:
    """The argument of each measurement."""

    #: The database alias with the queues; the queue ``QUEUE`` is declared there.
    alias: str
    #: The site's own alias, of which ``alias`` may be a copy with tables of its own.
    site_alias: str
    #: Small amounts: a look, not a measurement.
    quick: bool
    #: Rounds; the median counts.
    repeats: int
    redis_url: str | None
    raw: RawTable
    #: Reports progress.
    say: Callable[[str], None]

    def amount(self, full: int, quick: int) -> int:
        """Return how many: of a full run, or of a quick one."""
        return quick if self.quick else full

    @property
    def is_large(self) -> bool:
        """Whether millions of rows can be made here, in tables that are thrown away as a whole."""
        return self.alias != self.site_alias


@contextmanager
def tables_for(alias: str) -> Iterator[tuple[str, RawTable]]:
    """Yield an alias with an empty queue, and its raw limits; everything is gone afterwards.

    PostgreSQL gives tables of one's own, in a schema, which are dropped as a whole: millions of
    deleted rows would bloat the site's. Elsewhere the site's tables are used and tidied.
    """
    with own_schema(alias, "mq_bench") if has_schemas(alias) else nullcontext(alias) as own, bench_queue(own):
        raw = raw_table(own)
        try:
            yield own, raw
        finally:
            raw.close()


def has_schemas(alias: str) -> bool:
    """Return whether there can be tables of one's own beside the site's."""
    return connections[alias].vendor == "postgresql"
