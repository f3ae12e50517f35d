"""Where a benchmark takes place: the database, its raw limits, how much, and who is told how far it is."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from django.db import connections

from django_mq.benchmarks.measuring import QUEUE
from django_mq.delivery.queues import declare
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class RawLimits(Protocol):
    """What the database does for a program that knows nothing of queues, over the same table and indexes."""

    @property
    def targets(self) -> Mapping[str, float]:
        """What we should reach on this kind of database."""

    @staticmethod
    def durability(cursor: Any) -> str:
        """Return what a commit waits for."""

    def insert_and_commit(self, amount: int) -> None:
        """An INSERT and a COMMIT for each row."""

    def insert_one_by_one(self, amount: int) -> None:
        """As above, each statement a transaction by itself."""

    def connection(self) -> Any:
        """Return another connection."""

    def claim_one(self, driver: Any) -> bool:
        """Claim the first row over a connection of one's own."""

    def copy(self, amount: int) -> None:
        """The quickest way to load rows, in batches of 1,000, one commit each."""

    def drain(self) -> None:
        """Claim 1,000 and delete them, each in a transaction, until none is left."""

    def empty(self) -> None:
        """Throw all rows away."""

    def close(self) -> None:
        """Leave no trace."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a measuring function is given."""

    #: The database alias with the queues; the queue ``QUEUE`` is declared there.
    alias: str
    #: The site's own alias, of which ``alias`` may be a copy with tables of its own.
    site_alias: str
    #: Small amounts: a look, not a measurement.
    quick: bool
    #: Rounds; the median counts.
    repeats: int
    redis_url: str | None
    #: None where nobody has written them for this kind of database.
    raw: RawLimits | None
    #: Tells whoever waits how far it is.
    say: Callable[[str], None]

    def amount(self, full: int, quick: int) -> int:
        """Return how many: of a full run, or of a quick one."""
        return quick if self.quick else full

    @property
    def targets(self) -> Mapping[str, float]:
        """What should be reached here, by the measure's name; a measure may have no target."""
        return {} if self.raw is None else self.raw.targets

    @property
    def is_large(self) -> bool:
        """Whether millions of rows can be made here, in tables that are thrown away as a whole."""
        return self.alias != self.site_alias


@contextmanager
def tables_for(alias: str) -> Iterator[tuple[str, RawLimits | None]]:
    """Yield an alias with an empty queue, and its raw limits; everything is gone afterwards.

    PostgreSQL gives tables of one's own, in a schema, which are dropped as a whole: millions of
    deleted rows would bloat the site's. Elsewhere the site's tables are used and tidied.
    """
    with _tables(alias) as own:
        raw = raw_limits(own)
        try:
            yield own, raw
        finally:
            if raw is not None:
                raw.close()


@contextmanager
def _tables(alias: str) -> Iterator[str]:
    if shared_store(alias).features.has_schemas:
        from django_mq.benchmarks.schema import own_schema  # noqa: PLC0415 - needs psycopg

        with own_schema(alias, "mq_bench") as own:
            declare(shared_store(own), QUEUE)
            yield own
        return
    declare(shared_store(alias), QUEUE)
    try:
        yield alias
    finally:
        clear_away(alias, QUEUE)


def raw_limits(alias: str, *, make: bool = True) -> RawLimits | None:
    """Return the raw limits of this kind of database; without ``make``, over what another process has made."""
    kind = _kind(alias)
    return None if kind is None else kind(alias, make=make)


def durability(alias: str) -> str:
    """Return what a commit waits for, which decides most of the figures."""
    kind = _kind(alias)
    if kind is None:
        return "not known"
    with connections[alias].cursor() as cursor:
        return str(kind.durability(cursor))


def _kind(alias: str) -> Any:
    found = shared_store(alias).features.raw_limits
    return None if found is None else getattr(import_module(f"django_mq.benchmarks.{found[0]}"), found[1])


def clear_away(alias: str, queue: str) -> None:
    """Delete a benchmark's queue with everything in it, and its history."""
    store = shared_store(alias)
    # A worker that had to be killed has left claims, and nobody waits for its deadline here.
    held = Message.objects.using(alias).filter(queue__name=queue, state=Message.Status.CLAIMED)
    store.release_held(list(held.values_list("id", flat=True)))
    store.delete_queue(queue, force=True)
    History.objects.using(alias).filter(queue_name=queue).delete()
