"""The store of a database: its parts, and what each of them needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from django.utils.functional import cached_property  # that of functools takes a lock in Python 3.11

from django_mq.stores.base import refuse_incomplete
from django_mq.stores.sql.admission import Admission, UsedIds
from django_mq.stores.sql.browser import Browser
from django_mq.stores.sql.capacities import QueueCapacities
from django_mq.stores.sql.claims import Claims
from django_mq.stores.sql.declared import DeclaredSelectors
from django_mq.stores.sql.deletions import Deletions
from django_mq.stores.sql.ends import Ends
from django_mq.stores.sql.exchanges import Exchanges, VolatileMessages
from django_mq.stores.sql.fairness import FairPlaces
from django_mq.stores.sql.last_values import LastValues
from django_mq.stores.sql.maintenance import Maintenance
from django_mq.stores.sql.messages import Messages
from django_mq.stores.sql.moves import Moves
from django_mq.stores.sql.operations import Operations
from django_mq.stores.sql.parking import Parking
from django_mq.stores.sql.periodic import PeriodicRuns
from django_mq.stores.sql.queues import Queues
from django_mq.stores.sql.rates import Rates
from django_mq.stores.sql.results import TaskResults
from django_mq.stores.sql.retention import Retention
from django_mq.stores.sql.rollups import Rollups
from django_mq.stores.sql.runs import BegunTasks
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.settlements import Declines, Leases, Settlements
from django_mq.stores.sql.tenants import TenantSteps
from django_mq.stores.sql.unique_keys import UniqueKeys

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.stores.base import Features
    from django_mq.stores.sql.database import Database
    from django_mq.stores.sql.publications import Publications
    from django_mq.stores.sql.server import DatabaseServer


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The class of each part; a database names its own where it does something in another way."""

    database: type[Database]
    publications: type[Publications]
    server: type[DatabaseServer]
    queues: type[Queues] = Queues
    exchanges: type[Exchanges] = Exchanges
    messages: type[Messages] = Messages
    last_values: type[LastValues] = LastValues
    fairness: type[FairPlaces] = FairPlaces
    moves: type[Moves] = Moves
    leases: type[Leases] = Leases
    declared: type[DeclaredSelectors] = DeclaredSelectors
    unique_keys: type[UniqueKeys] = UniqueKeys
    admission: type[Admission] = Admission
    deletions: type[Deletions] = Deletions
    sessions: type[Sessions] = Sessions
    claims: type[Claims] = Claims
    settlements: type[Settlements] = Settlements
    parking: type[Parking] = Parking
    rates: type[Rates] = Rates
    browser: type[Browser] = Browser
    operations: type[Operations] = Operations
    maintenance: type[Maintenance] = Maintenance
    retention: type[Retention] = Retention
    rollups: type[Rollups] = Rollups
    tenants: type[TenantSteps] = TenantSteps
    results: type[TaskResults] = TaskResults
    periodic: type[PeriodicRuns] = PeriodicRuns
    volatile: type[VolatileMessages] = VolatileMessages

    def __post_init__(self) -> None:
        refuse_incomplete(self)


class SQLStore:
    """A store over a database.

    A part is made when it is first used: a publish makes a store and needs few parts.
    """

    features: ClassVar[Features]
    parts: ClassVar[Parts]

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        self.database: Database = self.parts.database(connection, private=private)
        self.alias = connection.alias

    def close(self) -> None:
        self.database.close()

    @cached_property
    def server(self) -> DatabaseServer:
        return self.parts.server(self.database)

    @cached_property
    def queues(self) -> Queues:
        return self.parts.queues(self.database)

    @cached_property
    def exchanges(self) -> Exchanges:
        return self.parts.exchanges(self.database, self.queues)

    @cached_property
    def publications(self) -> Publications:
        return self.parts.publications(self.database, self.queues)

    # What the others change messages by.

    @cached_property
    def ends(self) -> Ends:
        return Ends(self.database, self)

    @cached_property
    def messages(self) -> Messages:
        return self.parts.messages(self.database, self.ends)

    @cached_property
    def capacities(self) -> QueueCapacities:
        return QueueCapacities(self.database)

    @cached_property
    def last_values(self) -> LastValues:
        return self.parts.last_values(self.database, self.messages, self.capacities)

    @cached_property
    def fairness(self) -> FairPlaces:
        return self.parts.fairness(self.database, self.queues, self.messages)

    @cached_property
    def moves(self) -> Moves:
        return self.parts.moves(
            self.database,
            queues=self.queues,
            exchanges=self.exchanges,
            messages=self.messages,
            capacities=self.capacities,
            last_values=self.last_values,
            fairness=self.fairness,
        )

    @cached_property
    def leases(self) -> Leases:
        return self.parts.leases(self.database, self.messages, self.last_values, self.ends)

    @cached_property
    def declines(self) -> Declines:
        return Declines(self.database)

    @cached_property
    def runs(self) -> BegunTasks:
        return BegunTasks(self.database, self.ends)

    @cached_property
    def declared(self) -> DeclaredSelectors:
        return self.parts.declared(self.database, self.queues, self.messages)

    # The subjects that change messages.

    @cached_property
    def unique_keys(self) -> UniqueKeys:
        return self.parts.unique_keys(self.database, self.operations)

    @cached_property
    def admission(self) -> Admission:
        return self.parts.admission(
            self.database,
            publications=self.publications,
            capacities=self.capacities,
            last_values=self.last_values,
            moves=self.moves,
            declared=self.declared,
            fairness=self.fairness,
            used_ids=UsedIds(self.database),
            unique_keys=self.unique_keys,
        )

    @cached_property
    def deletions(self) -> Deletions:
        return self.parts.deletions(self.database, self.queues, self.messages, self.moves)

    @cached_property
    def sessions(self) -> Sessions:
        return self.parts.sessions(
            self.database, self.messages, self.moves, self.leases, self.runs, self.deletions, self.queues
        )

    @cached_property
    def settlements(self) -> Settlements:
        return self.parts.settlements(
            self.database, self.messages, self.moves, self.leases, self.declines, self.ends, self.runs
        )

    @cached_property
    def claims(self) -> Claims:
        return self.parts.claims(
            self.database,
            queues=self.queues,
            messages=self.messages,
            last_values=self.last_values,
            fairness=self.fairness,
            leases=self.leases,
            declines=self.declines,
            settlements=self.settlements,
            parking=self.parking,
            ends=self.ends,
        )

    @cached_property
    def parking(self) -> Parking:
        return self.parts.parking(self.database)

    @cached_property
    def rates(self) -> Rates:
        return self.parts.rates(self.database)

    @cached_property
    def browser(self) -> Browser:
        return self.parts.browser(self.database)

    @cached_property
    def operations(self) -> Operations:
        return self.parts.operations(
            self.database, self.messages, self.moves, self.last_values, self.fairness, self.ends
        )

    @cached_property
    def maintenance(self) -> Maintenance:
        return self.parts.maintenance(
            self.database,
            queues=self.queues,
            messages=self.messages,
            moves=self.moves,
            last_values=self.last_values,
            fairness=self.fairness,
            parking=self.parking,
            sessions=self.sessions,
            declared=self.declared,
        )

    @cached_property
    def retention(self) -> Retention:
        return self.parts.retention(self.database, self.fairness)

    @cached_property
    def rollups(self) -> Rollups:
        return self.parts.rollups(self.database)

    @cached_property
    def tenants(self) -> TenantSteps:
        return self.parts.tenants(self.database)

    @cached_property
    def volatile(self) -> VolatileMessages:
        return self.parts.volatile(self.database)

    @cached_property
    def periodic(self) -> PeriodicRuns:
        return self.parts.periodic(self.database)

    @cached_property
    def results(self) -> TaskResults:
        return self.parts.results(self.database)
