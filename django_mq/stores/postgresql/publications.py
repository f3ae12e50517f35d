"""Publications in PostgreSQL: one row past the driver's cursors, many rows by COPY."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from psycopg.errors import InvalidSqlStatementName, UniqueViolation

from django_mq.stores.connections import translating
from django_mq.stores.postgresql import copying
from django_mq.stores.postgresql.copying import Target, is_worth_copying
from django_mq.stores.postgresql.database import (
    BYTES_OID,
    SMALL_NUMBER_OID,
    TEXT_OID,
    UUID_OID,
    first_value,
    is_open,
    prepared_on,
    preparing,
)
from django_mq.stores.sql.publications import NEW_MESSAGE_FIELDS, IncompleteError, Publications, is_ready_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.postgresql.database import PostgreSQLDatabase
    from django_mq.stores.records import NewMessage, Times
    from django_mq.stores.sql.database import Rows

#: The parameters of append_at_once: what of a message does not say when, with its type.
TYPES_AT_ONCE = (
    ("queue_name", TEXT_OID),
    ("message_id", UUID_OID),
    ("body", BYTES_OID),
    ("content_type", TEXT_OID),
    ("content_encoding", TEXT_OID),
    ("headers", TEXT_OID),
    ("properties", TEXT_OID),
    ("priority", SMALL_NUMBER_OID),
    ("type", TEXT_OID),
    ("correlation_id", TEXT_OID),
    ("group_key", TEXT_OID),
)


def _at_once(message: NewMessage) -> dict[str, Any]:
    return {name: getattr(message, name) for name, _ in TYPES_AT_ONCE}


def _in_binary(message: NewMessage) -> list[bytes | None]:
    """Return the same as the server reads them, in the order of their types."""
    properties, correlation_id, group_key = message.properties, message.correlation_id, message.group_key
    return [
        message.queue_name.encode(),
        message.message_id.bytes,
        message.body,
        message.content_type.encode(),
        message.content_encoding.encode(),
        message.headers.encode(),
        None if properties is None else properties.encode(),
        message.priority.to_bytes(2),
        message.type.encode(),
        None if correlation_id is None else correlation_id.encode(),
        None if group_key is None else group_key.encode(),
    ]


class PostgreSQLPublications(Publications):
    """Append by a prepared statement where that is safe, and by COPY where that is worth it."""

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
                # The project has dropped what was prepared; in a transaction that is an error like any other.
                prepared_on(driver).is_direct = False
                if self.database.in_transaction:
                    raise
        return self.rows("append_at_once", **_at_once(message))

    def _prepared(self, driver: Any, message: NewMessage) -> Rows:
        text = self.database.text("append_at_once")
        if is_open(driver):
            found = first_value(driver, text, TYPES_AT_ONCE, _in_binary(message))
            return [] if found is None else [(int.from_bytes(found),)]
        known = prepared_on(driver)
        known.left_to_cursors = True  # one of them is about to prepare a statement
        with preparing(driver):
            return known.cursor.execute(text, _at_once(message), prepare=True, binary=True).fetchall()

    def append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        if is_worth_copying(messages) and (ids := self._copy_all(messages)) is not None:
            return ids
        columns = {name: [getattr(message, name) for message in messages] for name in NEW_MESSAGE_FIELDS}
        return [row[0] for row in self.rows("append_many", **columns)]

    def _copy_all(self, messages: Sequence[NewMessage]) -> list[int] | None:
        names = {message.queue_name for message in messages}
        found = self.rows("copy_targets", names=list(names), amount=len(messages))
        if len(found) < len(names):
            return []
        ids: list[int] | None = found[0][-1]
        if ids is not None:
            self._copy(copying.rows(messages, ids, {name: Target.of(given) for name, *given, _ in found}))
        return ids

    def append_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None = None
    ) -> None:
        if is_ready_at_once(like):
            with suppress(IncompleteError), self.database.transaction():
                return self._copy_alike(like, message_ids, bodies, times)
        # Or the queue is unknown or closed, or an id is taken: the reason is said there.
        self.append_many([*like.multiplied(message_ids, bodies, times)])
        return None

    def _copy_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None
    ) -> None:
        found = self.rows("copy_targets", names=[like.queue_name], amount=0)
        if not found:
            raise IncompleteError
        _, *given, _ = found[0]
        target = Target.of(given)
        if times is None:
            self._copy(copying.rows_alike(like, message_ids, bodies, target), "copy_alike")
        else:
            self._copy(copying.rows_timed(like, message_ids, bodies, times, target), "copy_timed")

    def _copy(self, data: bytes, name: str = "copy_messages") -> None:
        try:
            with self.database.connection.cursor() as cursor, cursor.copy(self.database.text(name)) as copy:
                copy.write(data)
        except UniqueViolation:
            raise IncompleteError from None
