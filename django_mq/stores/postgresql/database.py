"""One connection to PostgreSQL: many statements in one round trip, and those that are prepared past Django.

A cursor searches the text for parameters, asks each value for its type, and looks the statement up among those it
has prepared; for one row that takes longer than all the rest of a publish in its client. ``first_value`` sends a
statement through libpq itself: it is prepared once under a name of its own and takes its values as bytes in the
server's binary format. The connection's lock, its way of waiting and its errors are still the driver's.

A prepared statement lives in one server process. Behind a pooler each transaction may meet another, where it is
not known. A client is told the number of its process, and a pooler that gives connections away must make that
number up: so ``may_prepare`` asks the server itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from psycopg import Cursor, generators
from psycopg.adapt import Loader
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from django_mq import conf
from django_mq.stores.connections import translating
from django_mq.stores.postgresql.settings import bounded
from django_mq.stores.sql.database import PARAMETER, Database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper
    from psycopg import Connection
    from psycopg.abc import Buffer
    from psycopg.pq.abc import PGresult

    from django_mq.stores.sql.database import Asking, Rows, Statement


#: Types by the server's numbers, which never change.
BYTES_OID, SMALL_NUMBER_OID, TEXT_OID, UUID_OID = 17, 21, 25, 2950
DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
# Plain names for what every publish meets: Python 3.11 takes as long to look a member up on its class
# as to compare it.
BINARY, IDLE, IN_TRANSACTION, NO_PIPELINE = (
    Format.BINARY,
    TransactionStatus.IDLE,
    TransactionStatus.INTRANS,
    PipelineStatus.OFF,
)
#: A connection that is used so often is worth the question, and the preparation.
WORTH_ASKING = 5
#: Where a connection of the driver keeps what is prepared on it: the two end together.
PREPARED = "_django_mq_prepared"


class Prepared:
    """What is known of a connection of the driver, and prepared on it."""

    def __init__(self, driver: Connection[Any]) -> None:
        self.uses = 0
        #: Whether it leads straight to the server; None until that was asked.
        self.is_direct: bool | None = None
        #: Texts to the names of what was prepared past the cursors.
        self.names: dict[str, bytes] = {}
        #: What the other prepared statements share: a new cursor for each would take a fifth of a publish in its
        #: client. Its answers are fetched at once.
        self.cursor = Cursor(driver)


def prepared_on(driver: Connection[Any]) -> Prepared:
    found: Prepared | None = getattr(driver, PREPARED, None)
    if found is None:
        found = Prepared(driver)
        setattr(driver, PREPARED, found)
    return found


def is_open(driver: Connection[Any]) -> bool:
    """Whether a statement may be sent now, and what is prepared here will be there the next time.

    A driver that has prepared statements itself drops all that are prepared on its connection after
    any rollback: there its cursors, which know of that, must be used.
    """
    pg = driver.pgconn
    if driver.prepare_threshold is not None or pg.pipeline_status != NO_PIPELINE:
        return False
    if pg.parameter_status(b"client_encoding") != b"UTF8":
        return False
    if pg.transaction_status != IDLE or driver.autocommit:
        return bool(pg.transaction_status in (IDLE, IN_TRANSACTION))
    # The driver would begin a transaction: without saying of what kind.
    return driver.isolation_level is None and driver.read_only is None and driver.deferrable is None


def first_value(
    driver: Connection[Any], text: str, types: tuple[tuple[str, int], ...], values: Sequence[bytes | None]
) -> bytes | None:
    """Run the statement; return the first column of its first row, None if there is no row.

    ``types`` names the parameters, in any order, and ``values`` follow that order, both in the
    server's binary format. Raises psycopg's errors.
    """
    with driver.lock:
        if not driver.autocommit and driver.pgconn.transaction_status == IDLE:
            # As the driver does before the first statement of a transaction.
            driver.pgconn.send_query(b"BEGIN")
            _result(driver)
        name = _prepared(driver, text, types)
        driver.pgconn.send_query_prepared(name, values, [BINARY] * len(values), BINARY)
        result = _result(driver)
    return result.get_value(0, 0) if result.ntuples else None


def _prepared(driver: Connection[Any], text: str, types: tuple[tuple[str, int], ...]) -> bytes:
    """Return the name of the statement on this connection, prepared now if it was not yet."""
    names = prepared_on(driver).names
    name = names.get(text)
    if name is None:
        name = b"django_mq_%d" % len(names)
        numbered = _numbered(text, tuple(parameter for parameter, _ in types))
        driver.pgconn.send_prepare(name, numbered, [number for _, number in types])
        _result(driver)
        names[text] = name
    return name


@cache
def _numbered(text: str, names: tuple[str, ...]) -> bytes:
    return PARAMETER.sub(lambda match: f"${names.index(match.group(1)) + 1}", text).encode()


def _result(driver: Connection[Any]) -> PGresult:
    result: PGresult = driver.wait(generators.execute(driver.pgconn))[-1]
    if result.status not in DONE:
        raise error_from_result(result)
    return result


class JSONText(Loader):
    """Leaves JSON the text that it is, as Django does: a number read and written would be another one."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data[1:]).decode()  # a version stands before the text


#: How ``fetch`` reads what is no number or text: times are microseconds since 2000.
LOADERS: dict[str, type[Loader]] = {
    "jsonb": JSONText,
    "timestamptz": Int8BinaryLoader,
    "uuid": ByteaBinaryLoader,
}


class PostgreSQLDatabase(Database):
    package = "django_mq.stores.postgresql"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        if private:
            connection.settings_dict = bounded(connection.settings_dict, conf.load().STATEMENT_TIMEOUT_SECONDS)

    def now(self) -> str:
        # The statement's time, not the transaction's: a long transaction must not publish
        # into the past, and clock_timestamp() is volatile, which no index condition may be.
        if not self.clock_offset:
            return "statement_timestamp()"
        return f"(statement_timestamp() + interval '{self.clock_offset.total_seconds():f} seconds')"

    def cursor(self) -> Any:
        cursor = super().cursor()
        if self.connection.timezone is None:  # without USE_TZ, Django's loader drops the zone that the session has
            cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        return cursor

    def fetch(self, query: str, params: Sequence[Any]) -> Rows:
        # Django gives each time its zone in Python, and that takes longer than all the rest. Here a time is the
        # number, and a UUID the bytes, that they are in the binary format: an object of each takes longer than
        # what is done with it.
        with self.alone(), translating(self.connection):
            self.connection.ensure_connection()
            cursor = Cursor(self.connection.connection)
            for kind, loader in LOADERS.items():
                cursor.adapters.register_loader(kind, loader)
            return cursor.execute(query, params, binary=True).fetchall()

    def may_prepare(self) -> bool:
        """Whether the connection is used often and leads straight to the server, which is asked once."""
        connection = self.connection
        connection.validate_no_broken_transaction()
        # A pool may tidy up between two uses.
        if self.is_watched or connection.settings_dict.get("OPTIONS", {}).get("pool"):
            return False
        driver: Any = connection.connection
        known = prepared_on(driver)
        if known.is_direct is None:
            known.uses += 1
            if known.uses < WORTH_ASKING:
                return False
            known.is_direct = bool(driver.info.backend_pid == self.backend())
        return known.is_direct

    def backend(self) -> int:
        """Return the number of the server process, as the server says it."""
        return int(self.rows("backend")[0][0])

    def prepared_rows(self, name: str, params: dict[str, Any]) -> Rows:
        self.connection.ensure_connection()
        cursor = prepared_on(self.connection.connection).cursor
        return cursor.execute(self.text(name), params, prepare=True, binary=True).fetchall()

    @contextmanager
    def conversation(self) -> Iterator[Asking]:
        """Run a transaction in steps; BEGIN goes with the first, and COMMIT with one that says it is the last."""
        if not self.private or self.begun:
            with super().conversation() as each:
                yield each
            return
        is_begun = is_over = False

        def ask(statements: Sequence[Statement], *, is_last: bool = False) -> list[Rows]:
            nonlocal is_begun, is_over
            answers = self.sent(statements, begin=not is_begun, commit=is_last)
            is_begun, is_over = True, is_last
            return answers

        with self.alone(), translating(self.connection):
            self.connection.ensure_connection()
            try:
                yield ask
                if is_begun and not is_over:
                    self.execute("COMMIT")
            except BaseException:
                self.roll_back()
                raise

    def sent(self, statements: Sequence[Statement], *, begin: bool = False, commit: bool = False) -> list[Rows]:
        """Send all statements at once and return their rows.

        Plain psycopg cursors bind parameters on the server, so that each statement is planned once.
        BEGIN and COMMIT are never prepared: after an error, the server might lack what psycopg relies on.
        """
        driver: Any = self.connection.connection
        with driver.pipeline():
            if begin:
                Cursor(driver).execute("BEGIN", prepare=False)
            cursors = [
                Cursor(driver).execute(self.text(name), params, prepare=True, binary=True)
                for name, params in statements
            ]
            if commit:
                Cursor(driver).execute("COMMIT", prepare=False)
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
