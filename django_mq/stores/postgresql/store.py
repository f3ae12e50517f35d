"""The store for PostgreSQL: settle_and_claim in one round trip, and liveness locks."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg.errors import ActiveSqlTransaction

from django_mq import conf
from django_mq.engine.options import NAME_LENGTH
from django_mq.errors import StoreError
from django_mq.stores import queue_records
from django_mq.stores.base import Features
from django_mq.stores.connections import IDLE_SECONDS, has_ended, lock_of
from django_mq.stores.postgresql.claims import PostgreSQLClaims
from django_mq.stores.postgresql.database import PostgreSQLDatabase, texts
from django_mq.stores.postgresql.fairness import PostgreSQLFairPlaces
from django_mq.stores.postgresql.publications import PostgreSQLPublications, wait_of
from django_mq.stores.postgresql.results import PostgreSQLTaskResults
from django_mq.stores.postgresql.settings import OpenTransaction, isolation_in, problems, untended
from django_mq.stores.records import LockHolder, Renewal, Space
from django_mq.stores.registry import wanted_hints
from django_mq.stores.sql.browser import Browser
from django_mq.stores.sql.declared import DeclaredSelectors
from django_mq.stores.sql.deletions import DELETION_WAIT_SECONDS, LAST_ID, Deletions
from django_mq.stores.sql.server import DatabaseServer
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.store import Parts, SQLStore
from django_mq.stores.sql.unique_keys import UniqueKeys, key_parameters, refusing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.records import Heartbeat, NewMessage, Receipt, SessionInfo


def listened() -> bool:
    """Return whether workers listen to notifications with the connection settings of the queues."""
    settings = conf.load()
    return wanted_hints(settings) == "postgresql" and settings.LISTEN_DATABASE is None


#: What the name of an ended queue ends with, and how long that is at most.
ENDED, ENDED_LENGTH = re.compile(r" \(ended \d+\)$"), 30


@dataclass(eq=False)
class PostgreSQLDeletions(Deletions):
    #: By ended queue, the open transactions that may still write into it.
    _writing: dict[int, frozenset[str]] = field(init=False, default_factory=dict)

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        with self.database.transaction():
            self._see_present()
            return super().delete_queue(name, force=force)

    def _see_present(self) -> None:
        # A message that was committed after the transaction's snapshot would not be counted.
        try:
            self.rows("see_present")
        except StoreError as error:
            if not (error.__cause__ and isinstance(error.__cause__.__cause__, ActiveSqlTransaction)):
                raise
            raise StoreError(
                "A queue cannot be deleted in a transaction that sees an earlier state of the database."
                " Delete it in a transaction that is READ COMMITTED."
            ) from error

    def _wait_for_publishers(self) -> None:
        # A publish does not lock the queue's row, so that publishers never wait there. So the rare deletion locks
        # the message table; otherwise a message that is written meanwhile would stay behind without its queue.
        before = self.rows("limit_waiting", limit=f"{DELETION_WAIT_SECONDS}s")[0][0]
        limits = {
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
            "lock_timeout": f"{DELETION_WAIT_SECONDS}s",
        }
        self.rows("bound_transaction", **limits)
        self.rows("lock_messages")
        self.rows("limit_waiting", limit=before)

    def end_queue(self, name: str, *, force: bool) -> dict[str, int]:
        # Publishers may be writing into the queue, unseen, and do not lock its row. So it gives up its name first,
        # and is deleted when all transactions have ended that were writing messages then: none can come later.
        queue, former = self.queues.existing(name), ENDED.sub("", name)
        if former == name and len(name) + ENDED_LENGTH > NAME_LENGTH:
            return super().end_queue(name, force=force)
        if former == name:
            self._refuse_links(name)
            removed = self._empty(name) if force else 0
            self._refuse_messages(name, forced=force)
            self.rows("drop_bindings", queue=name)
            self.rows("set_aside", queue=name, ended=f"{name} (ended {queue.id})", closed=True)
            queue_records.drop(self.database.alias, name)
            return {name: removed}
        now = frozenset(row[0] for row in self.rows("writers"))
        writing = self._writing[queue.id] = self._writing.get(queue.id, now) & now
        if writing:
            return {}
        removed = self._empty(name) if force else self._take_back(name, former)
        if self.rows("queue_use", queue=name):
            self._refuse_messages(name, forced=True)
            self._drop(name)
        del self._writing[queue.id]
        return {former: removed} if removed and force else {}

    def _take_back(self, name: str, former: str) -> int:
        """Keep what came late: in the queue, under its former name, or in the one that has this name now."""
        ids = self._unheld(name, LAST_ID)
        if not ids:
            return 0
        if self.queues.find(former) is None:
            self.rows("set_aside", queue=name, ended=former, closed=False)
            return len(ids)
        return len(self.moves.move(ids, former))

    def delete_unused(self) -> dict[str, int]:
        deleted = Counter(super().delete_unused())
        if deleted:
            deleted.update(super().delete_unused())  # what has given up its name, if no publisher is writing
        return dict(deleted)

    def _is_empty(self, name: str) -> bool:
        return bool(ENDED.search(name)) or super()._is_empty(name)


class PostgreSQLBrowser(Browser):
    def _uncommitted(self, statement: str, known: frozenset[str] | None, *_: int) -> frozenset[str]:
        # A later transaction takes a later number: only those count that were open at first.
        there = frozenset(row[0] for row in self.rows(statement))
        return there if known is None else known & there


class PostgreSQLDeclaredSelectors(DeclaredSelectors):
    def writers(self) -> frozenset[str]:
        return frozenset(row[0] for row in self.rows("writers"))


#: Seconds for a session to come back after its connection has ended.
RECONNECT_SECONDS = 2.5


@dataclass(eq=False)
class PostgreSQLSessions(Sessions):
    reconnect_seconds: float = field(init=False, default=RECONNECT_SECONDS)
    #: The driver's connection that holds the liveness lock, and one that cannot because it is a pooler's.
    _lock_holder: Any = field(init=False, default=None)
    _pooled: Any = field(init=False, default=None)

    def _answer(self, session_id: int, heartbeat: Heartbeat, row: tuple[Any, ...]) -> Renewal:  # noqa: ARG002 - not asked apart
        _, leader, ready, mode, credit, has_stops = row
        command, stops = self._command(mode, credit), self._receipts(session_id, has_stops)
        return Renewal(leader=bool(leader), ready=bool(ready), command=command, stops=stops)

    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        self._lock_holder = None  # the new row does not say that this connection holds the lock
        return super().revive(session_id, info, held, deadline_seconds=deadline_seconds)

    def hold_liveness_lock(self, session_id: int, *, deadline_seconds: float) -> bool:
        self.database.connection.ensure_connection()
        driver = self.database.connection.connection
        if not self.database.private or driver in (self._lock_holder, self._pooled):
            return True
        backend = driver.info.backend_pid
        rows = self.rows(
            "hold_liveness_lock", session=session_id, backend=backend, deadline_seconds=deadline_seconds
        )
        own, guarded = rows[0] if rows else (True, False)
        self._pooled = None if own else driver
        self._lock_holder = driver if guarded else None
        return guarded or not own or not rows

    def has_hung_up(self) -> bool:
        if self._lock_holder is None:
            return False
        lock = lock_of(self.database.connection)
        if not lock.acquire(blocking=False):
            return False  # another thread runs a statement, and will get the error
        try:
            driver = self.database.connection.connection
            return driver is not self._lock_holder or has_ended(driver)
        finally:
            lock.release()

    def shorten_deadlines(self) -> int:
        with self.database.transaction():
            ids = [row[0] for row in self.rows("lock_disconnected", **self.grace())]
            if not ids:
                return 0
            return len(self.rows("shorten_deadlines", ids=ids, reconnect_seconds=self.reconnect_seconds))

    def grace(self) -> dict[str, Any]:
        return super().grace() | {"reconnect_seconds": self.reconnect_seconds}


class PostgreSQLUniqueKeys(UniqueKeys):
    @contextmanager
    def patient(self, claim: UniqueClaim) -> Iterator[None]:
        with refusing(claim):
            [[before, _]] = self.rows("limit_lock_waits", milliseconds=wait_of(claim))
            yield
            # After an error the savepoint restores it.
            self.rows("restore_lock_waits", before=before)

    def insert_many(self, keyed: Sequence[tuple[NewMessage, UniqueClaim]]) -> Set[str]:
        claims = [claim for _, claim in keyed]
        patient = max(claims, key=lambda claim: claim.rule.wait_seconds)
        digests = [claim.digest for claim in claims]
        ends = [claim.rule.seconds for claim in claims]
        given = {
            "digest": texts(digests),
            "label": texts([claim.label for claim in claims]),
            "until": texts([claim.rule.until for claim in claims]),
            "owner": texts([claim.owner for claim in claims]),
            "message_id": texts([message.message_id.hex for message, _ in keyed]),
            "seconds": "{" + ",".join(["NULL" if each is None else repr(float(each)) for each in ends]) + "}",
        }
        with refusing(patient, several=True):
            [[taken, _]] = self.rows("take_keys", **given, milliseconds=wait_of(patient), amount=len(keyed))
        return set(digests if taken is None else taken)

    def insert(self, message: NewMessage, claim: UniqueClaim) -> bool:
        parameters = key_parameters(message, claim) | {"milliseconds": wait_of(claim)}
        with refusing(claim):
            [[taken, _]] = self.rows("take_key", **parameters)
        return taken is not None


class PostgreSQLServer(DatabaseServer):
    database: PostgreSQLDatabase

    def spaces(self) -> list[Space]:
        return [Space(*row) for row in self.rows("space")]

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        longest = [OpenTransaction(*row) for row in self.rows("longest_transaction")]
        return list(untended(spaces, longest[0] if longest else None))

    def setting_problems(self) -> list[tuple[str, str]]:
        backend = self.database.backend()
        settings, info = self.database.connection.settings_dict, self.database.connection.connection.info
        isolation = isolation_in(settings) or self.rows("isolation")[0][0]
        pooled = info.backend_pid != backend
        return list(problems(settings, info.server_version, isolation, pooled=pooled, listened=listened()))

    def end_stuck(self, seconds: float) -> list[str]:
        return [worker for worker, _, ended in self.rows("end_stuck", seconds=seconds) if ended]

    def lock_holders(self, seconds: float) -> list[LockHolder]:
        return [LockHolder(*row) for row in self.rows("lock_holders", seconds=seconds)]

    def privilege_problems(self) -> list[tuple[str, str]]:
        sequences = ", ".join(row[0] for row in self.rows("refused_sequences"))
        refused = f"Refused: USAGE on {sequences}. Loads of many messages are written more slowly."
        return [(refused, f"GRANT USAGE ON SEQUENCE {sequences} to the role.")] if sequences else []


class PostgreSQLStore(SQLStore):
    """The store for PostgreSQL through psycopg 3."""

    features = Features(has_table_settings=True, notices_ends=True, looks_when_renewed=True, carries_hints=True)
    parts = Parts(
        database=PostgreSQLDatabase,
        server=PostgreSQLServer,
        publications=PostgreSQLPublications,
        deletions=PostgreSQLDeletions,
        sessions=PostgreSQLSessions,
        unique_keys=PostgreSQLUniqueKeys,
        fairness=PostgreSQLFairPlaces,
        claims=PostgreSQLClaims,
        declared=PostgreSQLDeclaredSelectors,
        browser=PostgreSQLBrowser,
        results=PostgreSQLTaskResults,
    )
