"""Fair places in PostgreSQL: a single message in two round trips, each of prepared statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg.errors import InvalidSqlStatementName

from django_mq.engine.decisions.fairness import FIRST, HEAD
from django_mq.engine.decisions.places import level_of, levels_of
from django_mq.stores.connections import translating
from django_mq.stores.postgresql.database import (
    BEGIN,
    COMMIT,
    LARGE_NUMBER_OID,
    TEXT_OID,
    is_open,
    prepared_on,
    run_together,
)
from django_mq.stores.postgresql.publications import PLACED, TYPES_PLACED, in_binary
from django_mq.stores.sql.fairness import LEVEL, WAITING, FairPlaces, arriving, level_in, reckoned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.pq.abc import PGresult

    from django_mq.stores.postgresql.database import PostgreSQLDatabase, PreparedStatement
    from django_mq.stores.records import NewMessage, QueueRecord

TYPES_OF_LEVEL: Final = (
    ("key", TEXT_OID),
    *((name, LARGE_NUMBER_OID) for name in ("queue_id", "level", "first", "limit")),
)
TYPES_OF_FAIR: Final = (
    *TYPES_PLACED,
    *((name, LARGE_NUMBER_OID) for name in ("key_id", "key_finish", "level_id", "level_finish", "level_seen")),
)


def _number(value: int) -> bytes:
    return value.to_bytes(8, signed=True)


def _rows(result: PGresult) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of ``fair_level_of``; of waiting messages, those up to the first that has not come back."""
    is_decided = False
    for row in range(result.ntuples):
        kind = _int(result.get_value(row, 0))
        if kind != WAITING:
            key = (result.get_value(row, 1) or b"").decode()
            yield kind, key, *(_int(result.get_value(row, column)) for column in (2, 3, 4, 5))
        elif not is_decided:
            place, has_come_back = _int(result.get_value(row, 3)), _int(result.get_value(row, 5))
            is_decided = not has_come_back
            yield kind, "", None, place, None, has_come_back


def _int(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value, signed=True)


class PostgreSQLFairPlaces(FairPlaces):
    database: PostgreSQLDatabase

    def _lock(self, level: Any) -> None:
        """Do nothing: fair_level has locked all that are free."""

    def _append(self, queue: QueueRecord, message: NewMessage) -> int | None:
        database = self.database
        with database.alone(), translating(database.connection):
            database.connection.ensure_connection()
            driver = database.connection.connection
            if not (database.may_prepare() and is_open(driver)):
                return None
            is_own = not (database.begun or database.in_transaction)
            try:
                written = self._written(driver, queue, message, is_own=is_own)
            except InvalidSqlStatementName:
                # The project has dropped prepared statements; in a transaction that is an error like any other.
                prepared_on(driver).is_direct = False
                if not is_own:
                    raise
                written = None
            except BaseException:
                if is_own:
                    database.roll_back()
                raise
            if written is None and is_own:
                database.roll_back()
        return written

    def _written(self, driver: Any, queue: QueueRecord, message: NewMessage, *, is_own: bool) -> int | None:
        """Return the row id of the message; None if it was not written, or no counter is free."""
        number = level_of(message.priority, levels_of(queue.kind, queue.levels))
        keys = arriving(queue, [(0, number, message.headers)])[number]
        [key] = keys
        asked = [key.encode(), *map(_number, (queue.id, number, FIRST, HEAD))]
        reading: PreparedStatement = self.database.text("fair_level_of"), TYPES_OF_LEVEL, asked
        level = level_in(_rows(run_together(driver, [BEGIN, reading] if is_own else [reading])[-1]))
        if not {key, LEVEL} <= level.own.keys():
            return None
        places, reached = reckoned(level, keys)
        numbers = (
            *(places[0], level.own[key].id, reached[key].finish),
            *(level.own[LEVEL].id, *reached[LEVEL]),
        )
        values = [*in_binary(message), *map(_number, numbers)]
        writing: PreparedStatement = self.database.text("append_fair", PLACED), TYPES_OF_FAIR, values
        result = run_together(driver, [writing, COMMIT] if is_own else [writing])[0]
        return int.from_bytes(result.get_value(0, 0) or b"") if result.ntuples else None
