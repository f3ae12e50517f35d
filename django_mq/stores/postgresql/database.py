"""One connection to PostgreSQL: several statements in one round trip, and prepared statements without cursors.

A cursor searches the text for parameters, asks each value for its type, and looks the statement up among the
prepared ones; for one row that takes longer than all the rest of a publish in the client. ``run_prepared`` sends a
statement through libpq: it is prepared once, and takes its values as bytes in the server's binary format. The
connection's lock, its way of waiting and its errors are still the driver's.

A prepared statement exists in one server process. Behind a pooler each transaction may meet another process. The
process number that a client is told is then made up by the pooler: so ``may_prepare`` asks the server itself.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg import Connection, Cursor, Error, IsolationLevel, OperationalError, Pipeline, RawCursor, generators
from psycopg.adapt import Loader
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.sql import Literal
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from django_mq import conf
from django_mq.stores import connections
from django_mq.stores.clock import clock
from django_mq.stores.connections import translating
from django_mq.stores.postgresql.settings import SILENCE_SECONDS, bounded, impatient, mark_of_process
from django_mq.stores.sql.database import PARAMETER, Database, note_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper
    from psycopg.abc import Buffer, PQGen
    from psycopg.pq.abc import PGconn, PGresult

    from django_mq.stores.sql.database import Asking, Rows, Statement


#: Types by the server's numbers, which never change.
BYTES_OID, LARGE_NUMBER_OID, SMALL_NUMBER_OID, NUMBER_OID, TEXT_OID, FLOAT_OID, UUID_OID = (
    17,
    20,
    21,
    23,
    25,
    701,
    2950,
)
DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
# Plain names, for speed: Python 3.11 takes as long to look up a member of an enum as to compare it.
BINARY, IDLE, IN_TRANSACTION, NO_PIPELINE = (
    Format.BINARY,
    TransactionStatus.IDLE,
    TransactionStatus.INTRANS,
    PipelineStatus.OFF,
)
BEGIN, COMMIT = b"BEGIN", b"COMMIT"
#: The text of a statement, the names and types of its parameters, and their values.
PreparedStatement: TypeAlias = "tuple[str, tuple[tuple[str, int], ...], Sequence[bytes | None]]"
#: A connection that is used so often is worth the question, and the preparation.
WORTH_ASKING = 5
#: Where a connection of the driver keeps what is prepared on it: the two end together.
PREPARED = "_django_mq_prepared"


class Prepared:
    """What is known about a connection of the driver, and prepared on it."""

    def __init__(self, driver: Connection[Any]) -> None:
        self.uses = 0
        #: Whether it leads directly to the server; None before that was asked.
        self.is_direct: bool | None = None
        #: How long a transaction may do nothing; None before the server was asked.
        self.idle_limit: str | None = None
        #: Texts to the names of what was prepared past the cursors.
        self.names: dict[str, bytes] = {}
        #: The other prepared statements share a cursor: a new one for each would take a fifth of a publish in the
        #: client. Its rows are fetched at once.
        self.cursor = RawCursor(driver)


def prepared_on(driver: Connection[Any]) -> Prepared:
    found: Prepared | None = getattr(driver, PREPARED, None)
    if found is None:
        found = Prepared(driver)
        setattr(driver, PREPARED, found)
    return found


def is_open(driver: Connection[Any]) -> bool:
    """Whether a statement may be sent now, and will still be prepared the next time.

    After a rollback, a driver that prepares statements itself drops all prepared statements of its connection: use
    its cursors then, which know about that.
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


def run_prepared(
    driver: Connection[Any], text: str, types: tuple[tuple[str, int], ...], values: Sequence[bytes | None]
) -> PGresult:
    """Run the statement; return its result in the server's binary format.

    ``types`` has the names and types of the parameters, and ``values`` follow that order, in that format, too.
    Raises psycopg's errors.
    """
    with driver.lock:
        _begin(driver)
        name = _prepared(driver, text, types)
        driver.pgconn.send_query_prepared(name, values, [BINARY] * len(values), BINARY)
        return _result(driver)


def run_apart(
    driver: Connection[Any], text: str, types: tuple[tuple[str, int], ...], values: Sequence[bytes | None]
) -> PGresult:
    """Do the same in a savepoint, in one round trip: an error leaves the open transaction as it was."""
    step: PreparedStatement = (text, types, values)
    try:
        return run_together(driver, [b"SAVEPOINT django_mq_apart", step, b"RELEASE SAVEPOINT django_mq_apart"])[1]
    except Error:
        # There is none to go back to if the transaction had failed before.
        with suppress(Error), driver.lock:
            driver.pgconn.send_query(b"ROLLBACK TO SAVEPOINT django_mq_apart")
            _result(driver)
        raise


def run_together(driver: Connection[Any], steps: Sequence[bytes | PreparedStatement]) -> list[PGresult]:
    """Run commands and prepared statements, as ``run_prepared`` does, in one round trip.

    Those behind one that fails do not run. Raises psycopg's errors.
    """
    with driver.lock:
        if BEGIN not in steps:
            _begin(driver)
        names = [b"" if isinstance(step, bytes) else _prepared(driver, *step[:2]) for step in steps]
        pg = driver.pgconn
        pg.enter_pipeline_mode()
        try:
            for step, name in zip(steps, names, strict=True):
                if isinstance(step, bytes):
                    pg.send_query_params(step, None)
                else:
                    pg.send_query_prepared(name, step[2], [BINARY] * len(step[2]), BINARY)
            pg.pipeline_sync()
            results: list[PGresult] = driver.wait(_answers(pg, len(steps)))
        finally:
            pg.exit_pipeline_mode()
    for result in results:
        if result.status not in DONE:
            raise error_from_result(result)
    return results


def _answers(pg: PGconn, number: int) -> PQGen[list[PGresult]]:
    """Send what is waiting, and return so many results; the answer to the Sync follows them."""
    found: list[PGresult] = list((yield from generators.execute(pg)))
    for _ in range(number):
        found += yield from generators.fetch_many(pg)
    return found[:number]


def _begin(driver: Connection[Any]) -> None:
    """Begin a transaction as the driver does before the first statement, unless it commits each statement."""
    if not driver.autocommit and driver.pgconn.transaction_status == IDLE:
        driver.pgconn.send_query(b"BEGIN")
        _result(driver)


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


@lru_cache(maxsize=4096)
def _numbered(text: str, names: tuple[str, ...]) -> bytes:
    """Return a statement with the server's form of parameters, ``$1`` for the first of these names."""
    return PARAMETER.sub(lambda match: f"${names.index(match.group(1)) + 1}", text).replace("%%", "%").encode()


@lru_cache(maxsize=4096)
def _names_in(text: str) -> tuple[str, ...]:
    """Return the names of a statement's parameters, each once."""
    return tuple(dict.fromkeys(PARAMETER.findall(text)))


def _result(driver: Connection[Any]) -> PGresult:
    result: PGresult = driver.wait(generators.execute(driver.pgconn))[-1]
    if result.status not in DONE:
        raise error_from_result(result)
    return result


class ImpatientConnection(Connection[Any]):
    """Closes itself if the server is silent for too long: then only a new connection helps."""

    #: Seconds without an answer.
    answer_seconds = float("inf")

    def wait(self, gen: PQGen[Any], *args: Any, **options: Any) -> Any:
        return super().wait(self._answered(gen), *args, **options)

    def _answered(self, steps: PQGen[Any]) -> PQGen[Any]:
        """Take the steps of an operation. The driver says every now and then that nothing has arrived."""
        try:
            wanted, heard_at = next(steps), time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > self.answer_seconds:
                    self.close()
                    raise OperationalError(f"the server has not answered for {self.answer_seconds:g} s")
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value


class OneSync(Pipeline):
    """A pipeline that sends nothing after its Sync.

    The driver's own asks the server behind the Sync to flush its answers, which the server does anyway. The server
    then stops counting for how long the transaction has been idle.
    """

    def _exit_gen(self) -> PQGen[None]:
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
        finally:
            yield from self._fetch_gen(flush=False)


class JSONText(Loader):
    """Returns JSON as text, as Django does: reading and writing would change a number."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data[1:]).decode()  # a version stands before the text


#: How ``fetch`` reads other values than numbers and text: times are microseconds since 2000.
LOADERS: dict[str, type[Loader]] = {
    "jsonb": JSONText,
    "timestamptz": Int8BinaryLoader,
    "uuid": ByteaBinaryLoader,
}


@lru_cache(maxsize=64)
def _with_literal(text: str, value: str) -> bytes:
    """Return several statements for one round trip, which has no parameters: all of them are this value."""
    return PARAMETER.sub(Literal(value).as_string(None), text).encode()


def numbers(values: Iterable[int]) -> str:
    """Return an array as text; psycopg takes ten times as long for a list."""
    return "{" + ",".join(map(str, values)) + "}"


def texts(values: Iterable[str]) -> str:
    """Return an array of texts as text."""
    return "{" + ",".join([f'"{value}"' for value in map(_escaped, values)]) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"') if "\\" in value or '"' in value else value


class PostgreSQLDatabase(Database):
    package = "django_mq.stores.postgresql"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        self._answer_seconds = float("inf")
        if private:
            statement_seconds = conf.load().STATEMENT_TIMEOUT_SECONDS
            connection.settings_dict = bounded(connection.settings_dict, statement_seconds)
            self._answer_seconds = statement_seconds + SILENCE_SECONDS
            self._statement_milliseconds = round(statement_seconds * 1000)
            self.mark = mark_of_process()
            self._connect: Callable[[dict[str, Any]], Any] = connection.get_new_connection
            connection.get_new_connection = self._connected  # type: ignore[method-assign,assignment]

    def fitted(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters with ids and claims as text: psycopg takes ten times as long for a list."""
        texts = {name: numbers(params[name]) for name in ("ids", "claims") if type(params.get(name)) is list}
        return params | texts if texts else params

    def _connected(self, params: dict[str, Any]) -> Any:
        """Open a connection of the driver that does not wait for ever."""
        driver = self._connect(params)
        driver.__class__ = ImpatientConnection
        driver.answer_seconds = self._answer_seconds
        return driver

    def expect_answers(self, seconds: float) -> None:
        """Give up a private connection on which nothing arrives for so long."""
        self._answer_seconds = seconds
        if self.connection.connection is not None:
            self.connection.connection.answer_seconds = seconds

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        before = self._answer_seconds
        self.expect_answers(min(seconds, before))
        try:
            yield
        finally:
            self.expect_answers(before)

    @contextmanager
    def looking(self, name: str, seconds: float) -> Iterator[bool]:
        with self.transaction():
            [(is_alone, before, _)] = self.rows("begin_look", name=name, limit=f"{round(seconds * 1000)}ms")
            try:
                yield is_alone
            finally:
                if not self.connection.needs_rollback:
                    self.rows("end_look", before=before)

    def bound_lock_waits(self, seconds: float) -> None:
        self.connection.settings_dict = impatient(self.connection.settings_dict, seconds)

    def now_skew_seconds(self) -> float:
        clock: datetime = self.rows("clock")[0][0]
        return (clock - datetime.now(UTC)).total_seconds()

    def now(self) -> str:
        # Not the transaction's time: a long transaction must not publish into the past. Not clock_timestamp(): it
        # is volatile, which no index condition may be.
        if not (self.clock_offset or clock.offset):
            return "statement_timestamp()"
        return f"(statement_timestamp() + interval '{self.offset().total_seconds():f} seconds')"

    def cursor(self) -> Any:
        cursor = super().cursor()
        if self.connection.timezone is None:  # without USE_TZ, Django's loader drops the zone that the session has
            cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        return cursor

    def fetch(self, query: str, params: Sequence[Any]) -> Rows:
        # Times are numbers and UUIDs are bytes, as in the binary format: making an object of each takes longer
        # than all the rest, as does the time zone that Django sets in Python.
        with self.alone(), translating(self.connection):
            self.connection.ensure_connection()
            cursor = Cursor(self.connection.connection)
            for kind, loader in LOADERS.items():
                cursor.adapters.register_loader(kind, loader)
            return cursor.execute(query, params, binary=True).fetchall()

    def may_prepare(self) -> bool:
        """Whether the connection is used often and leads directly to the server, which is asked once."""
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

    def reset_connection(self) -> bool:
        connection, driver = self.connection, self.connection.connection
        options = connection.settings_dict.get("OPTIONS", {})
        isolation = options.get("isolation_level")
        expected = None if isolation is None else IsolationLevel(isolation), None, None
        if (driver.isolation_level, driver.read_only, driver.deferrable) != expected:
            return False  # set on the driver, which knows no way back
        query = _with_literal(self.text("reset_connection"), connection.timezone_name)
        with translating(connection), driver.lock:
            driver.pgconn.send_query(query)
            _result(driver)
        if role := options.get("assume_role"):
            self.rows("assume_role", role=role)
        return True

    def backend(self) -> int:
        return int(self.rows("backend")[0][0])

    def prepared_rows(self, name: str, params: dict[str, Any]) -> Rows:
        self.connection.ensure_connection()
        cursor = prepared_on(self.connection.connection).cursor
        return self._executed(cursor, name, params, prepare=True).fetchall()

    def _executed(
        self, cursor: RawCursor[Any], name: str, params: Mapping[str, Any], *, prepare: bool
    ) -> RawCursor[Any]:
        # Other cursors parse a long text each time, to number its parameters.
        text = self.text(name, params)
        names = _names_in(text)
        given = [params[name] for name in names]
        return cursor.execute(_numbered(text, names), given, prepare=prepare, binary=True)

    def run_unseen(self, name: str, params: dict[str, Any]) -> Rows:
        """Run a statement past Django, in a transaction of its own. Raises psycopg's errors.

        The project's wrappers and logs do not see it, and an error leaves no mark on the project's connection.
        """
        with self.alone():
            if self.private:
                self.connection.ensure_connection()
            driver = self.connection.connection
            if driver is None:
                return []  # closed since the commit
            prepare = self.may_prepare()
            cursor = prepared_on(driver).cursor if prepare else RawCursor(driver)
            self._executed(cursor, name, params, prepare=prepare)
            return cursor.fetchall() if cursor.description else []

    def count_unseen(self, name: str, params: Mapping[str, str | int]) -> int | None:
        """Do the same and return how many rows it returned; prepare it where Django's driver would not.

        None if the connection is closed.
        """
        with self.alone():
            driver = self.connection.connection
            if driver is None and not self.private:
                return None
            if driver is not None and self.may_prepare() and is_open(driver):
                types = tuple(
                    (key, TEXT_OID if isinstance(value, str) else NUMBER_OID) for key, value in params.items()
                )
                values = [
                    value.encode() if isinstance(value, str) else value.to_bytes(4, signed=True)
                    for value in params.values()
                ]
                try:
                    return run_prepared(driver, self.text(name), types, values).ntuples
                except InvalidSqlStatementName:
                    # The project has dropped prepared statements.
                    prepared_on(driver).is_direct = False
        return len(self.run_unseen(name, dict(params)))

    @contextmanager
    def conversation(self) -> Iterator[Asking]:
        """Run a transaction in steps; BEGIN is sent with the first step, and COMMIT with one that is the last."""
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
            self.begun = True  # a block of ``transaction`` between the steps is a part of it
            try:
                yield ask
                if is_begun and not is_over:
                    self.execute("COMMIT")
            except BaseException:
                self.committing.clear()
                self.roll_back()
                raise
            finally:
                self.begun = False
        note_commit(self)

    def _plan(self, text: str) -> list[str]:
        # Prepared, as workers do: the plan is for any values.
        names = _names_in(text)
        numbered = _numbered(text, names).decode()
        nulls = f"({', '.join(['NULL'] * len(names))})" if names else ""
        with self.transaction():
            self.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            self.execute(f"PREPARE django_mq_plan AS {numbered}")
            rows = self.fetch(f"EXPLAIN EXECUTE django_mq_plan{nulls}", ())
            self.execute("DEALLOCATE django_mq_plan")
        return [line for (line,) in rows]

    @property
    def begin(self) -> str:  # type: ignore[override]
        self.connection.ensure_connection()
        known = prepared_on(self.connection.connection)
        if known.idle_limit is None:
            given = {"idle_in_transaction_session_timeout": f"{connections.IDLE_SECONDS}s"}
            known.idle_limit = str(self.rows("idle_limit", **given)[0][0])
        return f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = '{known.idle_limit}'"

    def execute(self, text: str) -> None:
        self.connection.ensure_connection()
        Cursor(self.connection.connection).execute(f"{self.mark}{text}".encode(), prepare=False)

    def sent(self, statements: Sequence[Statement], *, begin: bool = False, commit: bool = False) -> list[Rows]:
        """Send all statements at once and return their rows.

        Raw cursors of psycopg bind parameters on the server, so that each statement is planned once.
        BEGIN and COMMIT are never prepared: after an error, the server might lack what psycopg relies on.
        """
        self.connection.ensure_connection()
        driver: Any = self.connection.connection
        driver._pipeline = OneSync(driver)  # noqa: SLF001 - the next line would make one of the driver's own
        with driver.pipeline():
            if begin:
                self.execute("BEGIN")
                # The wait must not end as that of a slow statement, or the claim would not look for the holder.
                lock = min(1000 * connections.LOCK_SECONDS, self._statement_milliseconds // 2)
                limits = {
                    "idle_in_transaction_session_timeout": f"{connections.IDLE_SECONDS}s",
                    "lock_timeout": f"{lock}ms",
                }
                self._executed(RawCursor(driver), "bound_transaction", limits, prepare=True)
            cursors = [
                self._executed(RawCursor(driver), name, params, prepare=True) for name, params in statements
            ]
            if commit:
                self.execute("COMMIT")
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
