"""A store: what it can do, by subject."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from django_mq.stores.subjects.browser import Browser
    from django_mq.stores.subjects.claims import Claims, Settlements
    from django_mq.stores.subjects.database import Connection, Server
    from django_mq.stores.subjects.exchanges import Exchanges
    from django_mq.stores.subjects.maintenance import Maintenance, Retention
    from django_mq.stores.subjects.operations import Operations
    from django_mq.stores.subjects.parking import Parking
    from django_mq.stores.subjects.publications import Admission, Publications
    from django_mq.stores.subjects.queues import Deletions, Queues
    from django_mq.stores.subjects.rates import Rates
    from django_mq.stores.subjects.sessions import Sessions
    from django_mq.stores.subjects.unique_keys import UniqueKeys
    from django_mq.stores.subjects.volatile import Volatile


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a store can do. Code asks a flag, never the name of a vendor."""

    #: Whether messages survive the process.
    durable: bool = True
    #: Whether the database notices at once that a worker's connection has ended (``Sessions.hold_liveness_lock``).
    notices_ends: bool = False
    #: Whether ``Connection.change_marker`` notices the commits of other processes.
    notices_changes: bool = False
    #: Whether a second connection can write while this thread has an open transaction.
    concurrent_writers: bool = True
    #: Whether tables have settings of their own (migration 0005).
    has_table_settings: bool = False
    #: Whether consumers have selectors and credit for bytes, and are woken.
    serves_consumers: bool = False
    #: Whether the renewal of a session says if messages wait for it.
    looks_when_renewed: bool = False
    #: Whether the database itself can notify sessions of other processes (the setting HINTS).
    carries_hints: bool = False


class Store(Protocol):
    """The parts of a store, one for each subject. A store has one connection, for one thread at a time."""

    features: ClassVar[Features]
    #: The database alias, a part of the key of all that is cached about queues.
    alias: str

    def close(self) -> None:
        """Close a private connection; harmless on a shared one."""

    @property
    def database(self) -> Connection: ...

    @property
    def server(self) -> Server: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def deletions(self) -> Deletions: ...

    @property
    def exchanges(self) -> Exchanges: ...

    @property
    def publications(self) -> Publications: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def unique_keys(self) -> UniqueKeys: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def settlements(self) -> Settlements: ...

    @property
    def parking(self) -> Parking: ...

    @property
    def rates(self) -> Rates: ...

    @property
    def browser(self) -> Browser: ...

    @property
    def operations(self) -> Operations: ...

    @property
    def maintenance(self) -> Maintenance: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def volatile(self) -> Volatile: ...


def refuse_incomplete(parts: object) -> None:
    """Raise TypeError for a part that leaves out methods of its subject, before any store is made."""
    for name, part in vars(parts).items():
        if inspect.isabstract(part):
            missing = ", ".join(sorted(part.__abstractmethods__))
            raise TypeError(f"{part.__qualname__}, the part {name!r} of a store, has no {missing}.")
