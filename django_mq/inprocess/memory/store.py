"""The memory store: each call goes to the part of its subject, under the lock of the broker."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django_mq.inprocess.memory.broker import SharedBroker, Transaction, broker_named
from django_mq.inprocess.memory.claims import Claims
from django_mq.inprocess.memory.exchanges import Exchanges
from django_mq.inprocess.memory.operations import Browser, Maintenance, Operations
from django_mq.inprocess.memory.queues import Publications, Queues
from django_mq.inprocess.memory.sessions import Sessions
from django_mq.inprocess.memory.settlements import Settlements
from django_mq.inprocess.memory.volatile import VolatileMessages
from django_mq.stores.base import Features, Store, assembled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django_mq.stores.records import ClaimRequest, ClaimResult, Settlement


@assembled(broker=SharedBroker, open_transaction=Transaction)
class MemoryStore(Store):
    """A store over the broker of its name; any thread may use it."""

    # No other process commits here, and hints reach every thread of this one.
    features = Features(durable=False, serves_consumers=True)

    def __init__(self, name: str, *, private: bool = False) -> None:
        self.alias = name
        self.broker = self.clock = broker_named(name)
        self.open_transaction = Transaction(self.broker) if private else self.broker.transaction

    @staticmethod
    def handing(part: str, name: str) -> Callable[..., Any]:
        """Return a method that hands its call to a part, under the lock of the broker."""
        hand = Store.handing(part, name)

        def call(store: MemoryStore, *args: Any, **named: Any) -> Any:
            with store.broker.locked():
                answer = hand(store, *args, **named)
                store.queues.send_dropped()
                return answer

        return call

    queues = cached_property(Queues)
    publications = cached_property(Publications)
    sessions = cached_property(Sessions)
    claims = cached_property(Claims)
    settlements = cached_property(Settlements)
    operations = cached_property(Operations)
    maintenance = cached_property(Maintenance)
    browser = cached_property(Browser)
    exchanges = cached_property(Exchanges)
    volatile = cached_property(VolatileMessages)

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        with self.broker.locked():
            if request is not None:  # nothing can be rolled back, so errors must come first
                self.claims.claimant(session_id, request)
                self.claims.let_values_arrive(request)
            return super().settle_and_claim(session_id, settlements, request)

    # The transaction.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.open_transaction.transaction():
            yield
        with self.broker.locked():
            self.queues.send_dropped()

    @property
    def in_transaction(self) -> bool:
        with self.broker.locked():  # or it would be another thread's
            return self.open_transaction.unit is not None

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.open_transaction.after_commit(callback)
