"""The memory store: it has a broker, and hands each call to the part of its subject."""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from django_mq.stores.base import Features, Store
from django_mq.stores.memory.broker import Broker, Transaction, broker_named
from django_mq.stores.memory.claims import Claims
from django_mq.stores.memory.operations import Browser, Maintenance, Operations
from django_mq.stores.memory.queues import Publications, Queues
from django_mq.stores.memory.sessions import Sessions
from django_mq.stores.memory.settlements import Settlements
from django_mq.stores.memory.volatile import VolatileLane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from django_mq.stores.records import ClaimRequest, Exchange, Settlement

Subject = TypeVar("Subject")
Params = ParamSpec("Params")
Answer = TypeVar("Answer")


def handed(
    part: cached_property[Subject], method: Callable[Concatenate[Subject, Params], Answer]
) -> Callable[Concatenate[MemoryStore, Params], Answer]:
    """Return a method of the store that hands its call to a part, with every other thread kept out."""

    @wraps(method)
    def call(store: MemoryStore, /, *args: Params.args, **named: Params.kwargs) -> Answer:
        with store.broker.locked():
            return method(getattr(store, str(part.attrname)), *args, **named)

    return call


class MemoryStore(Store):
    """A handle of the broker of its name; any thread may use it."""

    # No other process commits here, and hints reach every thread of this one.
    features = Features(durable=False, concurrent_claims=True, serves_consumers=True)

    def __init__(self, name: str, *, private: bool = False) -> None:
        self.alias = name
        self.open_transaction = Transaction(self.broker) if private else self.broker.transaction

    # The parts.

    broker = cached_property(lambda store: broker_named(store.alias))
    queues = cached_property(Queues)
    publications = cached_property(Publications)
    sessions = cached_property(Sessions)
    claims = cached_property(Claims)
    settlements = cached_property(Settlements)
    operations = cached_property(Operations)
    maintenance = cached_property(Maintenance)
    browser = cached_property(Browser)
    volatile = cached_property(VolatileLane)

    # Queues.

    declare = handed(queues, Queues.declare)
    queue = handed(queues, Queues.find)
    delete_queue = handed(queues, Queues.delete)
    bind = handed(queues, Queues.bind)
    unbind = handed(queues, Queues.unbind)
    bindings = handed(queues, Queues.bindings)
    purge = handed(queues, Queues.purge)
    set_paused = handed(queues, Queues.set_paused)

    # Publishing.

    append = handed(publications, Publications.append)
    append_many = handed(publications, Publications.append_many)
    append_by_rules = handed(publications, Publications.append_by_rules)

    # Sessions.

    open_session = handed(sessions, Sessions.open)
    renew = handed(sessions, Sessions.renew)
    prolong = handed(sessions, Sessions.prolong)
    instruct = handed(sessions, Sessions.instruct)
    revive = handed(sessions, Sessions.revive)
    close_session = handed(sessions, Sessions.close)

    # Consuming.

    subscribe = handed(claims, Claims.subscribe)
    claim = handed(claims, Claims.claim)
    settle = handed(settlements, Settlements.settle)
    begin_settle = handed(settlements, Settlements.begin)
    give_back = handed(settlements, Settlements.give_back)
    resync = handed(settlements, Settlements.resync)

    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        with self.broker.locked():
            if request is not None:  # nothing can be rolled back, so what fails is asked first
                self.claims.claimant(session_id, request)
            return super().exchange(session_id, settlements, request)

    # Operations and maintenance.

    cancel = handed(operations, Operations.cancel)
    release_held = handed(operations, Operations.release_held)
    move = handed(operations, Operations.move)
    deliver_now = handed(operations, Operations.deliver_now)
    reschedule = handed(operations, Operations.reschedule)
    prioritise = handed(operations, Operations.prioritise)
    retry_dead = handed(operations, Operations.retry_dead)
    record_attempt = handed(broker, Broker.record_attempt)
    promote = handed(maintenance, Maintenance.promote)
    reap = handed(maintenance, Maintenance.reap)
    expire = handed(maintenance, Maintenance.expire)
    trim = handed(maintenance, Maintenance.trim)

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        with self.broker.locked():
            return self.maintenance.prune(limit, whole=whole) + self.volatile.prune()

    def roll_up(self) -> int:
        return 0  # no tables, and no pages that draw them

    # Looking and following.

    counts = handed(browser, Browser.counts)
    occupied = handed(browser, Browser.occupied)
    browse = handed(browser, Browser.browse)
    correlated = handed(browser, Browser.correlated)
    arrivals = handed(browser, Browser.arrivals)
    last_arrival = handed(browser, Browser.last_arrival)

    def count_unknown(self, *, limit: int) -> int:  # noqa: ARG002 - as every store
        return 0  # the engine makes no other

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        return frozenset()  # what is written is there

    def last_finished(self) -> int:
        return 0  # this history has no numbers

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        return frozenset()

    # The volatile lane.

    volatile_bind = handed(volatile, VolatileLane.bind)
    volatile_bindings = handed(volatile, VolatileLane.bindings)
    volatile_put = handed(volatile, VolatileLane.put)
    volatile_take = handed(volatile, VolatileLane.take)
    volatile_drop = handed(volatile, VolatileLane.drop)

    # The transaction, and the clock.

    def transaction(self) -> AbstractContextManager[None]:
        """Let messages come, and settlements count, at the end or not at all; every other thread is kept out.

        Inside, they are not seen yet. All else takes effect at once, and is not taken back.
        """
        return self.open_transaction.opened()

    @property
    def in_transaction(self) -> bool:
        with self.broker.locked():  # or it would be another thread's
            return self.open_transaction.unit is not None

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.open_transaction.after_commit(callback)

    def last_after_commit(self) -> Callable[[], None] | None:
        with self.broker.locked():
            callbacks = self.open_transaction.callbacks
            return callbacks[-1] if callbacks else None

    @property
    def clock_offset(self) -> timedelta:
        """Added to this machine's clock, for every handle of the broker; only tests set it."""
        return self.broker.clock_offset

    @clock_offset.setter
    def clock_offset(self, offset: timedelta) -> None:
        self.broker.clock_offset = offset

    def change_marker(self) -> int | None:
        return None

    def now_skew_seconds(self) -> float:
        return self.clock_offset.total_seconds()

    def close(self) -> None:
        """Nothing: the broker stays for the next handle."""
