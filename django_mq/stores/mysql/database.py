"""One connection to MariaDB or MySQL: a statement that returns no rows answers with one row for each it touched.

Neither server returns the rows of an UPDATE, and only MariaDB those of an INSERT. So one statement locks rows, and
the next one changes them, in a transaction.
"""

from __future__ import annotations

import re
from collections import ChainMap
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from django_mq import conf
from django_mq.errors import StoreError, StoreUnavailable
from django_mq.stores import connections
from django_mq.stores.clock import clock
from django_mq.stores.connections import LOCK_SECONDS, translating
from django_mq.stores.sql.database import PARAMETER, Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.stores.sql.database import Asking, Rows, Statement


ISOLATION = "read committed"
CONNECT_SECONDS = 10
#: The first versions with SKIP LOCKED, descending indexes, and the type of message ids.
OLDEST = {"MariaDB": (10, 11), "MySQL": (8, 4)}


def bounded(settings: Mapping[str, Any], statement_seconds: float) -> dict[str, Any]:
    """Return the settings of a private connection: time limits, unless the project sets them, and our isolation.

    A half-open connection would otherwise stop the worker's loop until the kernel gives up. The driver knows whole
    seconds only, and the server's own limit should come first.
    """
    silence = int(statement_seconds) + LOCK_SECONDS
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": silence, "write_timeout": silence}
    return {**settings, "OPTIONS": {**limits, **settings.get("OPTIONS", {}), "isolation_level": ISOLATION}}


def problems(name: str, version: tuple[int, ...], variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    oldest = OLDEST[name]
    if version < oldest:
        wanted, found = (".".join(map(str, numbers)) for numbers in (oldest, version))
        yield f"{name} {found} is too old.", f"Use {name} {wanted} or later."
    isolation = variables.get("transaction_isolation") or variables.get("tx_isolation", "")
    if isolation != "READ-COMMITTED":
        yield (
            f"Transactions are isolated as {isolation}: publishers and workers lock gaps and wait for each other.",
            "Take 'isolation_level' out of the OPTIONS of the database: Django's default is read committed.",
        )
    if "STRICT_" not in variables.get("sql_mode", ""):
        yield (
            "The database cuts values that do not fit instead of refusing them.",
            "Add STRICT_TRANS_TABLES to the server's sql_mode.",
        )


BEGIN, COMMIT = "BEGIN", "COMMIT"


class MySQLDatabase(Database):
    package = "django_mq.stores.mysql"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        self._statement_seconds = conf.load().STATEMENT_TIMEOUT_SECONDS
        #: The driver's connection whose limits are set.
        self._bounded: Any = None
        #: The driver's connection and a session for which it was said to work.
        self._speaks_for: set[tuple[Any, int]] = set()
        #: Whether a transaction begins with its first statement, and ends with this one, in one round trip.
        self._begins = self._ends = False
        #: Whether the transaction has ended with its last statement.
        self._has_ended = False
        if private:
            connection.settings_dict = bounded(connection.settings_dict, self._statement_seconds)

    def now_skew_seconds(self) -> float:
        clock: datetime = self.rows("clock")[0][0]
        return (clock.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()

    def now(self) -> str:
        # The statement's time in UTC, in any time zone of the session.
        if not (self.clock_offset or clock.offset):
            return "utc_timestamp(6)"
        return f"(utc_timestamp(6) + INTERVAL {self.offset().total_seconds():f} SECOND)"

    @contextmanager
    def looking(self, name: str, seconds: float) -> Iterator[bool]:
        is_alone = bool(self.rows("take_look", name=name)[0][0])
        self.rows("begin_look", seconds=seconds, milliseconds=round(seconds * 1000))
        try:
            yield is_alone
        finally:
            self.rows("end_look")
            if is_alone:
                self.rows("drop_look", name=name)

    @property
    def is_inside(self) -> bool:
        """Whether a transaction is open: a failed statement cannot be tried again alone."""
        return self.begun or self.in_transaction

    def rows(self, name: str, /, **params: Any) -> Rows:
        with self.alone(), translating(self.connection), self.marking():
            self._bound()
            return self.run(name, self.fitted(params))

    def insert(self, name: str, /, **params: Any) -> Rows:
        try:
            return self.rows(name, **params)
        except StoreError as error:
            if code_of(error) != DUPLICATE:
                raise
            return []

    def run(self, name: str, fitted: dict[str, Any]) -> Rows:
        begins, self._begins = self._begins, False
        ends, self._ends = self._ends, False
        with self.connection.cursor() as cursor:
            cursor.execute("; ".join([BEGIN] * begins + [self.text(name, fitted)] + [COMMIT] * ends), fitted)
            if begins:
                cursor.nextset()
            rows = rows_of(cursor)
            if ends:
                cursor.nextset()
                self._has_ended = True
        return rows

    def together(self, statements: Sequence[Statement], *, alone: bool = False) -> list[Rows]:
        """Run statements in one round trip, ``alone``: as one transaction; return the rows of each.

        Those behind one that fails do not run. Parameters with one name have one value.
        """
        if not self._takes_several:
            with self.transaction() if alone else nullcontext():
                return [self.rows(name, **params) for name, params in statements]
        fitted = [self.fitted(params) for _, params in statements]
        texts = [self.text(name, given) for (name, _), given in zip(statements, fitted, strict=True)]
        with self.alone(), translating(self.connection), self.marking():
            self._bound()
            begins, self._begins = self._begins or alone, False
            with self.connection.cursor() as cursor:
                cursor.execute("; ".join([BEGIN] * begins + texts + [COMMIT] * alone), dict(ChainMap(*fitted)))
                rows = []
                for number in range(begins + len(texts) + alone):
                    if number:
                        cursor.nextset()
                    rows.append(rows_of(cursor))
        return rows[begins : begins + len(texts)]

    @contextmanager
    def conversation(self) -> Iterator[Asking]:
        """Run a transaction in steps; COMMIT is sent with the last statement of one that is the last."""
        is_own = self.private and not self.begun and self._takes_several

        def ask(statements: Sequence[Statement], *, is_last: bool = False) -> list[Rows]:
            answers = []
            for number, (name, params) in enumerate(statements, 1):
                # What is told before the end comes after all statements.
                self._ends = is_own and is_last and number == len(statements) and self.ending is None
                answers.append(self.rows(name, **params))
            return answers

        with self.transaction():
            yield ask

    def fitted(self, params: dict[str, Any]) -> dict[str, Any]:
        return parameters(params)

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Mark the caller's transaction as lost after a dead-lock, which has rolled it back."""
        try:
            yield
        except Exception as error:
            if code_of(error) == DEADLOCK and self.connection.in_atomic_block:
                self.connection.needs_rollback = True
            raise

    def execute(self, text: str) -> None:
        self._bound()
        has_ended, self._has_ended = self._has_ended, False
        if text == BEGIN and self._takes_several:
            self._begins = True
        elif self._begins:  # the transaction ends, and nothing has run in it
            self._begins = False
        elif not (has_ended and text == COMMIT):
            super().execute(text)

    @property
    def _takes_several(self) -> bool:
        """Whether the server takes several statements in one round trip."""
        return bool(self.connection.settings_dict["OPTIONS"].get("multi_statements", True))

    def _plan(self, text: str) -> list[str]:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT name FROM django_mq_queue ORDER BY id LIMIT 1")
            queue = next(iter(cursor.fetchone() or ("orders",)))
            cursor.execute(f"EXPLAIN {text}", sample(text, queue))
            names = [column[0] for column in cursor.description]
            steps = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return [(LINE % step).rstrip() for step in steps]

    def speak_for(self, session_id: int) -> None:
        """Let the server know for which session a private connection works, once for each new connection."""
        if self.private and (self.connection.connection, session_id) not in self._speaks_for:
            self.rows("speak_for", session=session_id)
            known = {each for each in self._speaks_for if each[0] is self.connection.connection}
            self._speaks_for = known | {(self.connection.connection, session_id)}

    def _bound(self) -> None:
        """Set the limits of a private connection, once for each connection of the driver."""
        if not self.private or (self._bounded is not None and self._bounded is self.connection.connection):
            return
        self.connection.ensure_connection()
        limits = {
            "limit": LOCK_SECONDS,
            "idle": connections.IDLE_SECONDS,
            "statement_seconds": self._statement_seconds,
            "statement_milliseconds": round(self._statement_seconds * 1000),
        }
        self.run("bound_statements", self.fitted(limits))
        self._bounded = self.connection.connection


def rows_of(cursor: Any) -> Rows:
    """Return the rows of a statement; of one that returns none, one for each that it has touched."""
    return list(cursor.fetchall()) if cursor.description else [(cursor.lastrowid,)] * cursor.rowcount


LOCK_WAIT_TIMEOUT, DEADLOCK, DUPLICATE = 1205, 1213, 1062
TRIES = 3

Method = TypeVar("Method", bound="Callable[..., Any]")


def code_of(error: BaseException) -> int | None:
    """Return the number of the server's error behind one of Django's or ours, None if there is none."""
    cause: BaseException | None = error
    while cause is not None:
        if cause.args and isinstance(cause.args[0], int):
            return cause.args[0]
        cause = cause.__cause__
    return None


def retried(method: Method) -> Method:
    """Try a part's method again after a dead-lock or a long wait, unless a transaction is open."""

    @wraps(method)
    def trying(part: Any, *args: Any, **kwargs: Any) -> Any:
        for _ in range(TRIES - 1):
            try:
                return method(part, *args, **kwargs)
            except StoreUnavailable as error:
                if part.database.is_inside or code_of(error) not in {LOCK_WAIT_TIMEOUT, DEADLOCK}:
                    raise
        return method(part, *args, **kwargs)

    return cast("Method", trying)


#: A step of a plan.
LINE = "%(id)s %(select_type)s %(table)s: %(type)s %(key)s, %(rows)s rows; %(Extra)s"
#: Parameters that are compared with texts, with message ids, and with times; the others are numbers, or may be.
QUEUES = {"queue", "queues", "name", "names", "target"}
TEXTS = {"exchange", "key", "digest", "digests", "correlation_ids", "selectors", "task_id"}
UUIDS = {"batch", "member", "members", "message_id", "message_ids"}
TIMES = {"deliver_at", "expires_at", "since", "start", "end", "before", "now"}


def sample(text: str, queue: str) -> dict[str, Any]:
    """Return parameters for the plan of a statement: the database makes none for any values.

    It looks for a queue that does not exist while it makes the plan, and plans nothing more then.
    """
    kinds = [(QUEUES, queue), (TEXTS, "1"), (UUIDS, "0" * 32), (TIMES, "2031-01-01")]
    lists = set(re.findall(r"IN %\((\w+)\)s", text))
    values: dict[str, Any] = {}
    for name in PARAMETER.findall(text):
        value = next((value for names, value in kinds if name in names), 1)
        values[name] = [value, value] if name in lists else value
    return values


#: Some six thousand years: beyond the end of its calendar the database returns null.
LONGEST_SECONDS = 2e11


def parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _fitted(name, value) for name, value in params.items()}


def _fitted(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return value or [None]  # an empty list is no SQL; null is equal to nothing
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, UUID):
        return value.hex
    if name.endswith("seconds") and value is not None:
        return min(value, LONGEST_SECONDS)
    return value
