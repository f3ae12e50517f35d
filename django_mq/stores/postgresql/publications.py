"""Publications in PostgreSQL: one row by a prepared statement, many rows by COPY."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from operator import attrgetter
from struct import pack
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg.errors import InvalidSqlStatementName, UniqueViolation

from django_mq.stores.connections import translating
from django_mq.stores.postgresql import copying
from django_mq.stores.postgresql.copying import CopyTarget, is_worth_copying
from django_mq.stores.postgresql.database import (
    BYTES_OID,
    FLOAT_OID,
    LARGE_NUMBER_OID,
    SMALL_NUMBER_OID,
    TEXT_OID,
    UUID_OID,
    is_open,
    prepared_on,
    run_apart,
    run_prepared,
)
from django_mq.stores.sql.publications import (
    NEW_MESSAGE_FIELDS,
    IncompleteError,
    Publications,
    are_placed,
    is_keyed_at_once,
    is_ready_at_once,
)
from django_mq.stores.sql.unique_keys import key_parameters, refusing, returning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.postgresql.copying import Values
    from django_mq.stores.postgresql.database import PostgreSQLDatabase
    from django_mq.stores.records import NewMessage, Times
    from django_mq.stores.sql.database import Rows

#: The fields of a message without its times, each with its type and how it is encoded for the server.
AT_ONCE: tuple[tuple[str, int, Callable[[Any], bytes]], ...] = (
    ("queue_name", TEXT_OID, str.encode),
    ("message_id", UUID_OID, attrgetter("bytes")),
    ("body", BYTES_OID, bytes),
    ("content_type", TEXT_OID, str.encode),
    ("content_encoding", TEXT_OID, str.encode),
    ("headers", TEXT_OID, str.encode),
    ("properties", TEXT_OID, str.encode),
    ("priority", SMALL_NUMBER_OID, lambda number: number.to_bytes(2)),
    ("type", TEXT_OID, str.encode),
    ("correlation_id", TEXT_OID, str.encode),
    ("group_key", TEXT_OID, str.encode),
    ("told_to", TEXT_OID, str.encode),
)
TYPES_AT_ONCE = tuple((name, type_) for name, type_, _ in AT_ONCE)
TYPES_WITH_KEY = (
    *TYPES_AT_ONCE,
    *((name, TEXT_OID) for name in ("digest", "label", "until", "owner")),
    ("seconds", FLOAT_OID),
    ("milliseconds", TEXT_OID),
)
VALUES_AT_ONCE = attrgetter(*dict(TYPES_AT_ONCE))
#: The same of a message that has its place.
TYPES_PLACED = (*TYPES_AT_ONCE, ("place", LARGE_NUMBER_OID))
PLACED = {"place": None}
#: The statements of unique messages, by whether they take over keys, and whether the transaction is their own.
FIRST = {
    (False, True): "append_first",
    (True, True): "append_over",
    (False, False): "append_first_within",
    (True, False): "append_over_within",
}
FirstRow: TypeAlias = tuple[bool | None, int | None]
NOTHING: FirstRow = (None, None)
#: In the server's binary format.
TRUE = b"\x01"
ENCODERS_AT_ONCE = tuple(encode for _, _, encode in AT_ONCE)


def _at_once(message: NewMessage) -> dict[str, Any]:
    return dict(zip(dict(TYPES_AT_ONCE), VALUES_AT_ONCE(message), strict=True))


def _values(message: NewMessage) -> dict[str, Any]:
    return _at_once(message) if message.place is None else _at_once(message) | {"place": message.place}


def in_binary(message: NewMessage) -> list[bytes | None]:
    values = zip(ENCODERS_AT_ONCE, VALUES_AT_ONCE(message), strict=True)
    return [None if value is None else encode(value) for encode, value in values]


def wait_of(claim: UniqueClaim) -> str:
    """Return how long a publisher waits for a lock, in milliseconds."""
    return str(round(claim.rule.wait_seconds * 1000))


def _key_in_binary(claim: UniqueClaim) -> tuple[bytes | None, ...]:
    """Return the values of ``TYPES_WITH_KEY`` that its message does not have."""
    seconds = claim.rule.seconds
    return (
        claim.digest.encode(),
        claim.label.encode(),
        claim.rule.until.encode(),
        claim.owner.encode(),
        None if seconds is None else pack("!d", seconds),
        wait_of(claim).encode(),
    )


class PostgreSQLPublications(Publications):
    database: PostgreSQLDatabase

    def append_one(self, message: NewMessage) -> Rows:
        if not is_ready_at_once(message):
            return super().append_one(message)
        with self.database.alone(), translating(self.database.connection):
            self.database.connection.ensure_connection()
            rows = self._append_at_once(message)
        return rows or super().append_one(message)

    def _append_at_once(self, message: NewMessage) -> Rows:
        driver = self.database.connection.connection
        if self.database.may_prepare():
            try:
                return self._prepared(driver, message)
            except InvalidSqlStatementName:
                # The project has dropped prepared statements; in a transaction that is an error like any other.
                prepared_on(driver).is_direct = False
                if self.database.in_transaction:
                    raise
        return self.rows("append_at_once", **_values(message))

    def _prepared(self, driver: Any, message: NewMessage) -> Rows:
        if not is_open(driver):
            return self.database.prepared_rows("append_at_once", _values(message))
        if message.place is None:
            text, types, values = self.database.text("append_at_once"), TYPES_AT_ONCE, in_binary(message)
        else:
            text, types = self.database.text("append_at_once", PLACED), TYPES_PLACED
            values = [*in_binary(message), message.place.to_bytes(8, signed=True)]
        result = run_prepared(driver, text, types, values)
        return [(int.from_bytes(result.get_value(0, 0) or b""),)] if result.ntuples else []

    def append_first(self, message: NewMessage, claim: UniqueClaim) -> bool:
        if not is_keyed_at_once(message, claim):
            return False
        database = self.database
        is_own = not (database.begun or database.in_transaction)
        with refusing(claim), database.alone(), translating(database.connection):
            database.connection.ensure_connection()
            over = database.connection in returning
            had_row, id_ = self._first(message, claim, over=over, is_own=is_own)
            if had_row is None and not over:
                returning.add(database.connection)
                had_row, id_ = self._first(message, claim, over=True, is_own=is_own)
        if had_row is None:
            return False
        if over and not had_row:
            returning.discard(database.connection)
        if id_ is None:
            database.rows("take_back_key", digest=claim.digest, message_id=message.message_id)
        return id_ is not None

    def _first(self, message: NewMessage, claim: UniqueClaim, *, over: bool, is_own: bool) -> FirstRow:
        """Return whether the key had a row, and the id of the message; each is None if nothing was written.

        An error leaves the transaction of the caller as it was.
        """
        driver = self.database.connection.connection
        name = FIRST[over, is_own]
        if self.database.may_prepare() and is_open(driver):
            run, values = run_prepared if is_own else run_apart, [*in_binary(message), *_key_in_binary(claim)]
            try:
                result = run(driver, self.database.text(name), TYPES_WITH_KEY, values)
            except InvalidSqlStatementName:
                # The project has dropped prepared statements.
                prepared_on(driver).is_direct = False
            else:
                had_row, id_ = (result.get_value(0, column) if result.ntuples else None for column in (0, 1))
                return None if had_row is None else had_row == TRUE, None if id_ is None else int.from_bytes(id_)
        given = _at_once(message) | key_parameters(message, claim) | {"milliseconds": wait_of(claim)}
        with nullcontext() if is_own else self.database.transaction():
            rows = self.database.rows(name, **given)
        return rows[0][:2] if rows else NOTHING

    def append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        if is_worth_copying(messages) and (ids := self._copy_all(messages)) is not None:
            return ids
        names = (*NEW_MESSAGE_FIELDS, "place") if are_placed(messages) else NEW_MESSAGE_FIELDS
        columns = {name: [getattr(message, name) for message in messages] for name in names}
        return [row[0] for row in self.rows("append_many", **columns)]

    def _copy_all(self, messages: Sequence[NewMessage]) -> list[int] | None:
        names = {message.queue_name for message in messages}
        found = self.rows("copy_targets", names=list(names), amount=len(messages))
        if len(found) < len(names):
            return []
        ids: list[int] | None = found[0][-1]
        if ids is not None:
            targets = {name: CopyTarget(*given) for name, *given, _ in found}
            self._copy("copy_messages", copying.rows(messages, ids, targets), messages)
        return ids

    def append_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None = None
    ) -> None:
        if is_ready_at_once(like):
            with suppress(IncompleteError), self.database.transaction():
                for _, *given, _ in self.rows("copy_targets", names=[like.queue_name], amount=0):
                    rows = copying.rows_alike(like, message_ids, bodies, CopyTarget(*given), times)
                    return self._copy("copy_alike", rows)
        # This raises the error if the queue is unknown or closed, or an id is taken.
        self.append_many([*like.multiplied(message_ids, bodies, times)])
        return None

    def _copy(self, name: str, rows: Iterable[Values], messages: Sequence[NewMessage] = ()) -> None:
        try:
            with self.database.connection.cursor() as cursor:
                copying.write(cursor, self.database.text(name), rows, with_ids=bool(messages))
        except UniqueViolation:
            raise IncompleteError(messages) from None
