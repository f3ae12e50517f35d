"""The store of a database: each call goes to the part of its subject."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.stores import errors
from django_mq.stores.base import Store, assembled
from django_mq.stores.sql.admission import LastValues, QueueCapacities, UsedIds
from django_mq.stores.sql.browser import Browser
from django_mq.stores.sql.claims import Claims
from django_mq.stores.sql.database import Database
from django_mq.stores.sql.declared import DeclaredSelectors
from django_mq.stores.sql.exchanges import Exchanges
from django_mq.stores.sql.maintenance import Maintenance
from django_mq.stores.sql.messages import Messages, Moves, Settlements
from django_mq.stores.sql.operations import Operations
from django_mq.stores.sql.publications import Publications
from django_mq.stores.sql.queues import Queues
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.volatile import VolatileMessages

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.stores.records import ClaimRequest, ClaimResult, Settlement
    from django_mq.stores.sql.database import Rows


@assembled(database=Database)
class SQLStore(Store):
    """A store over a database, whose subclasses may have parts of their own.

    A part is made when it is first used: a publish makes a store and needs few parts.
    """

    #: What runs the statements.
    kind: ClassVar[type[Database]]

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        self.database = self.clock = self.kind(connection, private=private)
        self.connection = connection
        self.alias = connection.alias

    queues = cached_property(Queues)
    messages = cached_property(Messages)
    publications = cached_property(Publications)
    capacity = cached_property(QueueCapacities)
    last_values = cached_property(LastValues)
    duplicate_ids = cached_property(UsedIds)
    declared = cached_property(DeclaredSelectors)
    sessions = cached_property(Sessions)
    claims = cached_property(Claims)
    settlements = cached_property(Settlements)
    moves = cached_property(Moves)
    maintenance = cached_property(Maintenance)
    browser = cached_property(Browser)
    operations = cached_property(Operations)
    exchanges = cached_property(Exchanges)
    volatile = cached_property(VolatileMessages)

    # Calls that check first for features which only queues in memory have.

    def subscribe(self, session_id: int, name: str, consumer: object | None = None) -> None:
        self.refuse_consumers(consumer)
        self.claims.subscribe(session_id, name)

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        if request is not None and not settlements:
            return self._claim(session_id, request)
        self.let_values_arrive(request)
        with self.database.transaction():
            return super().settle_and_claim(session_id, settlements, request)

    def claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        return self._claim(session_id, request)

    def _claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        self.refuse_consumers(request.consumer)
        self.let_values_arrive(request)
        return self.claims.claim(session_id, request)

    def let_values_arrive(self, request: ClaimRequest | None) -> None:
        """Let last values arrive that are due, before a claim that promotes."""
        if request is not None and request.promote:
            with self.database.closing_if_failed():
                if self.queues.keep_last_values(request.queues):
                    self.last_values.promote(request.queues)

    def promote(self, limit: int = 1000) -> int:
        return self.last_values.promote() + self.messages.promote(limit)

    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        return self.settlements.settle(session_id, settlements)

    def refuse_consumers(self, consumer: object | None) -> None:
        """Raise UnsupportedRule for features that only queues in memory have."""
        if consumer is not None:
            raise errors.unsupported("a consumer with a selector, credit for bytes or wake-ups")

    # The results of tasks, which have no queue: Django's models read them.

    def write_result(self, **columns: Any) -> None:
        self.database.rows("write_result", **columns)

    # The database.

    @property
    def in_transaction(self) -> bool:
        return self.database.in_transaction

    def shape(self) -> Set[tuple[str, str]]:
        return {(table, name) for table, name in self.database.rows("shape")}

    def fetch(self, query: str, params: Sequence[Any]) -> Rows:
        """Return a query's rows as the driver makes them, for a caller that reads millions."""
        return self.database.fetch(query, params)
