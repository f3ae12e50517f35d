"""SQLite: one writer at a time, so nobody takes the write lock without having something to write.

The clock is this machine's: every process on the file shares it. What PostgreSQL does in one
statement with data-modifying parts takes several here, inside one write transaction, where
no other process can come in between.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db import transaction

from django_mq.engine.claim import fitting
from django_mq.errors import StoreUnavailable
from django_mq.stores.connections import translating
from django_mq.stores.features import Features
from django_mq.stores.records import Browsed, Claimed, Exchange
from django_mq.stores.space import Space
from django_mq.stores.sql import SQLStore
from django_mq.stores.sql.appending import is_ready_at_once
from django_mq.stores.sql.consuming import SEEN_COLUMN
from django_mq.stores.sql.ruling import Statement, lease_locked
from django_mq.stores.sqlite.connection import (
    as_driver_reads,
    at_once,
    parameters,
    problems,
    time_of,
    with_patience,
)
from django_mq.stores.sqlite.space import FILE, JOURNAL, journal_size, untended

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.stores.records import ClaimRequest, NewMessage, Reaped, Settlement

#: What takes two statements here, in this order; the one that gives the pair its name answers.
PAIRS = {
    "settle_finished": ("remember_finished", "settle_finished"),
    "remove": ("remember_removed", "remove"),
    "release_lapsed": ("release_lapsed", "give_back_lapsed"),
    "drop_queue": ("drop_bindings", "drop_duplicates", "drop_queue"),
    "move": ("move", "mark_tail"),
    "move_dead": ("move_dead", "mark_tail"),
    "prioritise": ("prioritise", "mark_tail"),
}

#: Where a claimed row says that it was held by a worker that died, and where its body is.
SUSPECT_COLUMN, BODY_COLUMN = (
    [field.name for field in fields(Claimed)].index(name) for name in ("suspect", "body")
)


class SQLiteStore(SQLStore):
    """The store for SQLite 3.35 and later."""

    features = Features(
        concurrent_claims=False,
        notices_changes=True,
        concurrent_writers=False,
        crosses_forks=False,
        raw_limits=("raw_sqlite", "RawFile"),
    )
    package = "django_mq.stores.sqlite"
    # A transaction that reads first and asks for the write lock later may be refused it for good.
    _begin: ClassVar[str] = "BEGIN IMMEDIATE"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        if private:
            connection.settings_dict = with_patience(connection.settings_dict)
        self._marked: Any = None
        self._reopened = 0

    def _now(self) -> str:
        return "%(now)s"

    def _moment(self) -> datetime:
        return datetime.now(UTC) + self.clock_offset

    def _params(self, params: dict[str, Any]) -> dict[str, Any]:
        return parameters(params, self._moment())

    def _rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        if name == "claim_chosen":
            return lease_locked(super()._rows, **params)
        if name not in PAIRS:
            return super()._rows(name, **params)
        with self._transaction():
            # Fitted once: writing a thousand ids as text costs a third of what finding them does.
            fitted = self._params(params)
            answers = {step: self._run(step, fitted) for step in PAIRS[name]}
        return answers[name]

    def _atomic(self) -> AbstractContextManager[None]:
        return super()._atomic() if self.private else self._shared_transaction()

    @contextmanager
    def _shared_transaction(self) -> Iterator[None]:
        outermost = not self.connection.in_atomic_block
        with transaction.atomic(using=self.connection.alias):
            if outermost:
                # Django's BEGIN takes no lock unless the site's settings say so.
                self._rows("lock_for_writing")
            yield

    # Publishing.

    def _append_one(self, message: NewMessage) -> list[tuple[Any, ...]]:
        if not is_ready_at_once(message):
            return super()._append_one(message)
        params = at_once(message, self._moment())
        connection = self.connection
        if self._is_watched:
            return self._run("append_at_once", params)
        with self._alone(), translating(connection):
            connection.ensure_connection()
            connection.validate_no_broken_transaction()
            # Django's cursor makes the text anew each time, for the names of its parameters.
            rows: list[tuple[Any, ...]]
            rows = connection.connection.execute(as_driver_reads(self._text("append_at_once")), params).fetchall()
            return rows

    def _append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        if not messages:
            return []
        now = self._moment()
        rows = [parameters(self._message_params(message), now) for message in messages]
        with self._alone(), translating(self.connection), self.connection.cursor() as cursor:
            # A body cannot travel as JSON; the statement is compiled once and costs no round trip.
            cursor.executemany(self._text("append_many"), rows)
            written = cursor.rowcount
        if written < len(rows):
            return []
        # Nobody else has written meanwhile, and all were: a row refused would have left a gap.
        last = self._rows("last_id")[0][0]
        return list(range(last - written + 1, last + 1))

    # Consuming.

    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        if settlements or request is None:
            return super().exchange(session_id, settlements, request)
        return self.claim(session_id, request)

    def claim(self, session_id: int, request: ClaimRequest) -> Exchange:
        self.refuse_consumers(request.consumer)
        return self._idle(session_id, request) or super().claim(session_id, request)

    def _idle(self, session_id: int, request: ClaimRequest) -> Exchange | None:
        """Look, without a lock, whether there is anything to claim; an idle worker stops here."""
        queues = {"queues": list(request.queues)}
        if self._rows("claimable", **queues) or not self._rows("session_alive", session=session_id):
            return None
        return self._exchange_of([], request, self._rows("next_due", **queues)[0][0])

    def _claim_rows(self, session_id: int, request: ClaimRequest) -> list[tuple[Any, ...]]:
        name, params = self._claim_statement(session_id, request)
        if name == "claim":
            rows = self._first_rows(name, params, request.max_bytes)
            rows = _chosen(rows, request.slots, request.max_bytes)
        else:
            rows = self._rows(name, **params)
        if rows:
            ids = [row[0] for row in rows]
            self._rows("lease", ids=ids, session=session_id, claim=params["claim"])
        return rows

    def _first_rows(self, name: str, params: dict[str, Any], max_bytes: int) -> list[tuple[Any, ...]]:
        """Return a statement's rows until their bodies have more bytes, that row included; two at least."""
        found: list[tuple[Any, ...]] = []
        total = 0
        with self._alone(), translating(self.connection), self._cursor() as cursor:
            # A row that is not asked for is not read.
            for row in cursor.execute(self._text(name), self._params(params)):
                found.append(row)
                total += len(row[BODY_COLUMN])
                if total > max_bytes and len(found) > 1:
                    break
        return found

    def _locking(self, _: Sequence[str]) -> list[Statement]:
        """Return nothing: the transaction holds the write lock, which no other connection has."""
        return []

    def _claimed(self, row: tuple[Any, ...]) -> Claimed:
        values = list(row[:SEEN_COLUMN])
        # By number, not by name: this is done for every message.
        values[7:11] = row[7] == 1, row[8] == 1, row[9] == 1, UUID(int=int(row[10], 16))
        values[14] = datetime.fromisoformat(f"{row[14]}+00:00")
        values[15:17] = time_of(row[15]), time_of(row[16])
        return Claimed(*values)

    # Upkeep.

    #: A wait for the write lock that is an outage, in seconds: sessions could not be renewed meanwhile.
    outage_seconds: float = 1.0

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        begin = time.monotonic()
        with self._transaction():
            waited = time.monotonic() - begin
            if waited > self.outage_seconds:
                raise StoreUnavailable(
                    f"Another program kept the database locked for {waited:.1f} seconds or more."
                )
            return super().reap(spare=spare)

    # Looking.

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        """Nobody: there is one writer, and no number of an unfinished one can be seen."""
        return frozenset()

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        """Nobody, as above."""
        return frozenset()

    def _browsed(self, row: tuple[Any, ...]) -> Browsed:
        id_, message_id, *middle = row
        middle[4:7] = map(time_of, middle[4:7])
        return Browsed(id_, UUID(hex=message_id), *middle)

    # The volatile lane.

    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        if not self._rows("volatile_waiting", queues=list(queues)):
            return []
        return super().volatile_take(queues, limit=limit)

    # The connection.

    def change_marker(self) -> int:
        version = self._rows("change_marker")[0][0]
        if self.connection.connection is not self._marked:
            # SQLite counts anew on each connection: a reopened one must not look unchanged.
            self._marked = self.connection.connection
            self._reopened += 1
        return int(self._reopened << 32 | version)

    def now_skew_seconds(self) -> float:
        return self.clock_offset.total_seconds()

    def spaces(self) -> list[Space]:
        [(size, loose)] = self._rows("space")
        return [Space(FILE, size, loose), Space(JOURNAL, journal_size(self.connection.settings_dict))]

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        return list(untended(spaces))

    def setting_problems(self) -> list[tuple[str, str]]:
        return problems(self.connection.settings_dict, self._rows("journal_mode")[0][0])


def _chosen(rows: list[tuple[Any, ...]], slots: int, max_bytes: int) -> list[tuple[Any, ...]]:
    """Return what may be leased; the first row says how many were seen."""
    end = fitting(((row[SUSPECT_COLUMN], len(row[BODY_COLUMN])) for row in rows), slots, max_bytes)
    return [(*row, len(rows)) for row in rows[:1][:end]] + rows[1:end]
