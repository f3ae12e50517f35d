"""The store of a database: it puts the parts together, and hands each call to the part of its subject."""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from django_mq.engine.verdict import DECLINE
from django_mq.stores import refusals
from django_mq.stores.base import Store
from django_mq.stores.sql.admission import Capacity, DuplicateIds, LastValues
from django_mq.stores.sql.browser import Browser
from django_mq.stores.sql.claims import Claims
from django_mq.stores.sql.database import Database
from django_mq.stores.sql.maintenance import Maintenance, Rollups
from django_mq.stores.sql.messages import Messages, Moves, Settlements
from django_mq.stores.sql.operations import Operations
from django_mq.stores.sql.publications import Publications, RuledPublications
from django_mq.stores.sql.queues import Queues
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.volatile import VolatileLane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.target import Target
    from django_mq.stores.records import ClaimRequest, Exchange, Settlement


Params = ParamSpec("Params")
Answer = TypeVar("Answer")


def handed(
    part: str, method: Callable[Concatenate[Any, Params], Answer]
) -> Callable[Concatenate[SQLStore, Params], Answer]:
    """Return a method of the store that hands its call to a part, whose class may have its own way of it."""

    @wraps(method)
    def call(store: SQLStore, /, *args: Params.args, **named: Params.kwargs) -> Answer:
        answer: Answer = getattr(getattr(store, part), method.__name__)(*args, **named)
        return answer

    return call


class SQLStore(Store):
    """A store over a database; a subclass names its own kinds of the parts where it has some.

    The parts are made when they are first used: a publish makes a store and needs few of them.
    """

    #: What runs the statements.
    kind: ClassVar[type[Database]]

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        self.database = self.kind(connection, private=private)
        self.connection = connection
        self.alias = connection.alias

    # The parts.

    queues = cached_property(Queues)
    messages = cached_property(Messages)
    publications = cached_property(Publications)
    ruled_publications = cached_property(RuledPublications)
    capacity = cached_property(Capacity)
    last_values = cached_property(LastValues)
    duplicate_ids = cached_property(DuplicateIds)
    sessions = cached_property(Sessions)
    claims = cached_property(Claims)
    settlements = cached_property(Settlements)
    moves = cached_property(Moves)
    maintenance = cached_property(Maintenance)
    rollups = cached_property(Rollups)
    browser = cached_property(Browser)
    operations = cached_property(Operations)
    volatile = cached_property(VolatileLane)

    # Queues.

    declare = handed("queues", Queues.declare)
    queue = handed("queues", Queues.find)
    delete_queue = handed("operations", Operations.delete_queue)
    bind = handed("queues", Queues.bind)
    unbind = handed("queues", Queues.unbind)
    bindings = handed("queues", Queues.bindings)
    set_paused = handed("queues", Queues.set_paused)

    # Publishing.

    append = handed("publications", Publications.append)
    append_many = handed("publications", Publications.append_many)
    append_by_rules = handed("ruled_publications", RuledPublications.append)

    # Sessions.

    open_session = handed("sessions", Sessions.open)
    renew = handed("sessions", Sessions.renew)
    prolong = handed("sessions", Sessions.prolong)
    instruct = handed("sessions", Sessions.instruct)
    revive = handed("sessions", Sessions.revive)
    close_session = handed("sessions", Sessions.close)

    # Consuming.

    give_back = handed("settlements", Settlements.give_back)
    resync = handed("settlements", Settlements.resync)

    def refuse_consumers(self, consumer: Consumer | Target | None, settlements: Sequence[Settlement] = ()) -> None:
        """Raise UnsupportedRule for what only queues in memory give consumers."""
        if consumer is not None:
            raise refusals.unsupported("a consumer with a selector, credit for bytes or wake-ups")
        if any(item.verdict is DECLINE for item in settlements):
            raise refusals.unsupported("the verdict DECLINE")

    def subscribe(self, session_id: int, name: str, consumer: Consumer | None = None) -> None:
        self.refuse_consumers(consumer)
        self.claims.subscribe(session_id, name)

    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        if request is not None and not settlements:
            self.refuse_consumers(request.consumer)
            return self.claims.claim(session_id, request)
        with self.database.transaction():
            return super().exchange(session_id, settlements, request)

    def claim(self, session_id: int, request: ClaimRequest) -> Exchange:
        self.refuse_consumers(request.consumer)
        return self.claims.claim(session_id, request)

    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        self.refuse_consumers(None, settlements)
        return self.settlements.settle(session_id, settlements)

    # Maintenance.

    chores = handed("maintenance", Maintenance.chores)
    promote = handed("maintenance", Maintenance.promote)
    reap = handed("maintenance", Maintenance.reap)
    expire = handed("maintenance", Maintenance.expire)
    trim = handed("maintenance", Maintenance.trim)
    prune = handed("maintenance", Maintenance.prune)

    def roll_up(self) -> int:
        return self.rollups.roll_up(self.now_skew_seconds())

    # Looking and following.

    counts = handed("browser", Browser.counts)
    occupied = handed("browser", Browser.occupied)
    count_unknown = handed("browser", Browser.count_unknown)
    browse = handed("browser", Browser.browse)
    correlated = handed("browser", Browser.correlated)
    arrivals = handed("browser", Browser.arrivals)
    last_arrival = handed("browser", Browser.last_arrival)
    unfinished = handed("browser", Browser.unfinished)
    last_finished = handed("browser", Browser.last_finished)
    finishing = handed("browser", Browser.finishing)

    # Steering.

    purge = handed("operations", Operations.purge)
    cancel = handed("operations", Operations.cancel)
    release_held = handed("operations", Operations.release_held)
    move = handed("moves", Moves.move)
    deliver_now = handed("operations", Operations.deliver_now)
    reschedule = handed("operations", Operations.reschedule)
    prioritise = handed("operations", Operations.prioritise)
    retry_dead = handed("moves", Moves.retry_dead)
    record_attempt = handed("operations", Operations.record_attempt)

    # The volatile lane.

    volatile_bind = handed("volatile", VolatileLane.bind)
    volatile_bindings = handed("volatile", VolatileLane.bindings)
    volatile_put = handed("volatile", VolatileLane.put)
    volatile_take = handed("volatile", VolatileLane.take)
    volatile_drop = handed("volatile", VolatileLane.drop)

    # The caller's transaction, and the connection.

    @property
    def clock_offset(self) -> timedelta:
        """Added to the database's clock; only tests set it."""
        return self.database.clock_offset

    @clock_offset.setter
    def clock_offset(self, offset: timedelta) -> None:
        self.database.clock_offset = offset

    transaction = handed("database", Database.transaction)
    after_commit = handed("database", Database.after_commit)
    fetch = handed("database", Database.fetch)
    disconnect = handed("database", Database.disconnect)
    reconnect = handed("database", Database.reconnect)
    close = handed("database", Database.close)

    @property
    def in_transaction(self) -> bool:
        return self.database.in_transaction

    def last_after_commit(self) -> Callable[[], None] | None:
        waiting = self.connection.run_on_commit
        return waiting[-1][1] if waiting else None

    def change_marker(self) -> int | None:
        return None
