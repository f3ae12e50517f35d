"""PostgreSQL: rows locked one by one, and a whole exchange in one round trip."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from psycopg import Cursor
from psycopg.adapt import Loader
from psycopg.errors import InvalidSqlStatementName, UniqueViolation
from psycopg.pq import Format
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from django_mq import conf
from django_mq.engine.verdict import ACCEPT, RELEASE, Verdict
from django_mq.errors import SessionLost
from django_mq.stores.connections import translating
from django_mq.stores.features import Features
from django_mq.stores.postgresql import copying, direct
from django_mq.stores.postgresql.copying import Target, is_worth_copying
from django_mq.stores.postgresql.deleting import Deleting
from django_mq.stores.postgresql.pointing import Pointer
from django_mq.stores.postgresql.preparing import cursor_of, may_prepare, prepare_no_more, preparing
from django_mq.stores.postgresql.settings import bounded, isolation_in, problems, refused
from django_mq.stores.postgresql.space import Transaction, untended
from django_mq.stores.records import Exchange
from django_mq.stores.space import Space
from django_mq.stores.sql.appending import NEW_MESSAGE_FIELDS, IncompleteError, is_ready_at_once
from django_mq.stores.sql.ruling import PROMOTE_LIMIT
from django_mq.stores.sql.steering import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper
    from psycopg.abc import Buffer

    from django_mq.stores.records import ClaimRequest, NewMessage, Settlement, Times
    from django_mq.stores.sql.ruling import Conversation, Rows, Statement, Step

#: The parameters of append_at_once: what of a message does not say when, with its type.
TYPES_AT_ONCE = (
    ("queue_name", direct.TEXT),
    ("message_id", direct.UUID),
    ("body", direct.BYTES),
    ("content_type", direct.TEXT),
    ("content_encoding", direct.TEXT),
    ("headers", direct.TEXT),
    ("properties", direct.TEXT),
    ("priority", direct.SMALL_NUMBER),
    ("type", direct.TEXT),
    ("correlation_id", direct.TEXT),
    ("group_key", direct.TEXT),
)
#: The claims' counterparts that answer everything at once: those that settle as well, and those that need not.
SETTLE_AND = {
    "claim": "settle_and_claim",
    "claim_across": "settle_and_claim_across",
    "claim_across_apart": "settle_and_claim_across_apart",
    "claim_onward": "settle_and_claim_onward",
}
ALONE = {
    "claim": "claim_alone",
    "claim_across": "claim_alone_across",
    "claim_across_apart": "claim_alone_across_apart",
    "claim_onward": "claim_alone_onward",
}
#: The columns before those of a claim.
ANSWER_COLUMNS = 3
#: Verdicts that need answers before they are written: where the message goes.
ASKING = (Verdict.DEAD, Verdict.EXPIRE)


def numbers(values: Iterable[int]) -> str:
    """Return an array of numbers as its text: what psycopg does for any array takes ten times as long."""
    return "{" + ",".join(map(str, values)) + "}"


def _at_once(message: NewMessage) -> dict[str, Any]:
    """Return the parameters of append_at_once for the driver."""
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


class PostgreSQLStore(Deleting):
    """The store for PostgreSQL through psycopg 3."""

    features = Features(
        concurrent_claims=True,
        raw_limits=("raw_postgresql", "RawTable"),
        has_schemas=True,
        has_table_settings=True,
        builds_indexes_apart=True,
        notices_ends=True,
        looks_when_renewed=True,
    )
    package = "django_mq.stores.postgresql"
    _promotes_at_once = True

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        if private:
            connection.settings_dict = bounded(connection.settings_dict, conf.load().STATEMENT_TIMEOUT_SECONDS)
        #: Queue to how far this store's session has come in it.
        self._pointers: defaultdict[str, Pointer] = defaultdict(Pointer)

    def _now(self) -> str:
        # The statement's time, not the transaction's: a long transaction must not publish
        # into the past, and clock_timestamp() is volatile, which no index condition may be.
        if not self.clock_offset:
            return "statement_timestamp()"
        return f"(statement_timestamp() + interval '{self.clock_offset.total_seconds():f} seconds')"

    def _cursor(self) -> Any:
        cursor = super()._cursor()
        if self.connection.timezone is None:  # without USE_TZ, Django's loader drops the zone that the session has
            cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        return cursor

    def _append_one(self, message: NewMessage) -> list[tuple[Any, ...]]:
        if not is_ready_at_once(message):
            return super()._append_one(message)
        with self._alone(), translating(self.connection):
            self.connection.ensure_connection()
            rows = self._append_at_once(message)
        return rows or super()._append_one(message)

    def _append_at_once(self, message: NewMessage) -> list[tuple[Any, ...]]:
        """Run the statement that is run so often that it is prepared where that is safe."""
        driver = self.connection.connection
        if self._may_prepare():
            try:
                return self._prepared(driver, message)
            except InvalidSqlStatementName:
                # The project has dropped what was prepared; in a transaction that is an error like any other.
                prepare_no_more(driver)
                if self.in_transaction:
                    raise
        return self._rows("append_at_once", **_at_once(message))

    def _prepared(self, driver: Any, message: NewMessage) -> list[tuple[Any, ...]]:
        text = self._text("append_at_once")
        if direct.is_open(driver):
            found = direct.first_value(driver, text, TYPES_AT_ONCE, _in_binary(message))
            return [] if found is None else [(int.from_bytes(found),)]
        direct.leave_to_cursors(driver)
        with preparing(driver):
            return cursor_of(driver).execute(text, _at_once(message), prepare=True, binary=True).fetchall()

    def fetch(self, query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        # Django gives each time its zone in Python, and that takes longer than all the rest. Here a time is the
        # number, and a UUID the bytes, that they are in the binary format: an object of each takes longer than
        # what is done with it.
        with self._alone(), translating(self.connection):
            self.connection.ensure_connection()
            cursor = Cursor(self.connection.connection)
            for kind, loader in LOADERS.items():
                cursor.adapters.register_loader(kind, loader)
            return cursor.execute(query, params, binary=True).fetchall()

    def _may_prepare(self) -> bool:
        connection = self.connection
        connection.validate_no_broken_transaction()
        # A pool may tidy up between two uses.
        spared = self._is_watched or connection.settings_dict.get("OPTIONS", {}).get("pool")
        return not spared and may_prepare(connection.connection, lambda: int(self._rows("backend")[0][0]))

    def _append_all(self, messages: Sequence[NewMessage]) -> list[int]:
        if is_worth_copying(messages) and (ids := self._copy_all(messages)) is not None:
            return ids
        columns = {name: [getattr(message, name) for message in messages] for name in NEW_MESSAGE_FIELDS}
        return [row[0] for row in self._rows("append_many", **columns)]

    def _copy_all(self, messages: Sequence[NewMessage]) -> list[int] | None:
        names = {message.queue_name for message in messages}
        found = self._rows("copy_targets", names=list(names), amount=len(messages))
        if len(found) < len(names):
            return []
        ids: list[int] | None = found[0][-1]
        if ids is not None:
            self._copy(copying.rows(messages, ids, {name: Target.of(given) for name, *given, _ in found}))
        return ids

    def append_alike(
        self, like: NewMessage, message_ids: Sequence[bytes], bodies: Sequence[bytes], times: Times | None = None
    ) -> None:
        if not is_ready_at_once(like):
            return super().append_alike(like, message_ids, bodies, times)
        with suppress(IncompleteError), self._transaction():
            found = self._rows("copy_targets", names=[like.queue_name], amount=0)
            if not found:
                raise IncompleteError
            _, *given, _ = found[0]
            target = Target.of(given)
            if times is None:
                return self._copy(copying.rows_alike(like, message_ids, bodies, target), "copy_alike")
            return self._copy(copying.rows_timed(like, message_ids, bodies, times, target), "copy_timed")
        # The queue is unknown or closed, or an id is taken: the reason is said there.
        return super().append_alike(like, message_ids, bodies, times)

    def _copy(self, data: bytes, name: str = "copy_messages") -> None:
        try:
            with self.connection.cursor() as cursor, cursor.copy(self._text(name)) as copy:
                copy.write(data)
        except UniqueViolation:
            raise IncompleteError from None

    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        accepted = all(item.verdict is ACCEPT and item.failure is None for item in settlements)
        self.refuse_consumers(None if request is None else request.consumer, () if accepted else settlements)
        if not accepted and any(item.verdict is RELEASE for item in settlements):
            self._pointers.clear()  # what is given back stands at a place that was passed
        # Verdicts that write more than the message's own row need answers in between.
        plain = accepted or all(item.verdict not in ASKING and item.failure is None for item in settlements)
        ruled = request is not None and self._has_rules(request.queues, idle=not settlements)
        if not (self.private and plain):
            return super().exchange(session_id, settlements, request)
        with self._alone(), translating(self.connection):
            if ruled and request is not None:
                settling = list(self._settle_statements(session_id, settlements))
                result, answers = self._claim_by_rules(session_id, request, settling)
                done = {row[0] for rows in answers for row in rows}
                result.void = frozenset(item.id for item in settlements) - done
            elif request is not None and accepted and not request.promote:
                result = self._one_statement(session_id, settlements, request)
            else:
                result = self._one_round_trip(session_id, settlements, request)
        return self._settle_late(session_id, settlements, result)

    def _claim_statement(self, session_id: int, request: ClaimRequest) -> tuple[str, dict[str, Any]]:
        name, params = super()._claim_statement(session_id, request)
        if name == "claim_across" and min(params["limits"]) < request.credit:
            name = "claim_across_apart"
        return name, params

    def _one_statement(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest
    ) -> Exchange:
        """Do what a busy worker does all the time; a statement alone is a transaction."""
        name, params = self._claim_statement(session_id, request)
        params["queues"] = list(request.queues)
        if settlements:
            params |= self._fence(session_id, settlements) | {"outcome": ACCEPTED}
            params |= {name: numbers(params[name]) for name in ("ids", "claims")}
        if name != "claim":
            return self._answered(name, params, request)
        return self._from_pointer(params, request)

    def _answered(self, name: str, params: dict[str, Any], request: ClaimRequest) -> Exchange:
        """Run a claim in the form that settles as well, if there is anything to settle. Raises SessionLost."""
        self.connection.ensure_connection()
        text = self._text((SETTLE_AND if "ids" in params else ALONE)[name])
        rows = cursor_of(self.connection.connection).execute(text, params, prepare=True, binary=True).fetchall()
        alive, due, void = rows[0][:ANSWER_COLUMNS]
        if not alive:
            raise SessionLost
        found = [row[ANSWER_COLUMNS:] for row in rows if row[ANSWER_COLUMNS] is not None]
        result = self._exchange_of(found, request, due)
        result.void = frozenset(void or ())
        return result

    def _from_pointer(self, params: dict[str, Any], request: ClaimRequest) -> Exchange:
        """Claim from where this session knows the ready messages to begin, or look at the whole queue."""
        pointer, begin = self._pointers[request.queues[0]], time.monotonic()
        if pointer.wants_step(begin):
            pointer.step(frozenset(row[0] for row in self._rows("writers")), begin)
        if request.whole or pointer.seconds_until_look(begin) <= 0:
            result = self._answered("claim", params, request)
            self._has_looked(request, result, begin)
            return result
        columns = zip(("levels", "places", "passed"), zip(*pointer.places(), strict=True), strict=True)
        spots = {name: numbers(column) for name, column in columns}
        result = self._answered("claim_onward", params | spots, request)
        pointer.advance(result.claimed, cut=result.more)
        if not result.more:
            # Something may have come back to a place that was passed, and nobody says so in time.
            result.whole = False
            due, soon = result.next_due_seconds, max(0.0, pointer.seconds_until_look(time.monotonic()))
            result.next_due_seconds = soon if due is None else min(due, soon)
        return result

    def _has_looked(self, request: ClaimRequest, result: Exchange, begin: float) -> None:
        end = time.monotonic()
        # A message that must travel alone, and found no slot, stands in front unseen.
        cut = result.more or (request.slots <= 0 and not result.claimed)
        self._pointers[request.queues[0]].has_looked(result.claimed, cut=cut, now=end, seconds=end - begin)

    def _one_round_trip(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        begin = time.monotonic()
        settling = list(self._settle_statements(session_id, settlements))
        claiming = [] if request is None else self._claiming(session_id, request)
        answers = self._in_one_transaction(settling + claiming)
        done = {row[0] for rows in answers[: len(settling)] for row in rows}
        result = Exchange()
        if request is not None:
            alive, _, rows, due = answers[len(settling) :]
            if not alive:
                raise SessionLost
            result = self._exchange_of(rows, request, due[0][0])
            if len(request.queues) == 1:
                self._has_looked(request, result, begin)
        result.void = frozenset(item.id for item in settlements) - done
        return result

    def _claiming(self, session_id: int, request: ClaimRequest) -> list[Statement]:
        queues = {"queues": list(request.queues)}
        return [
            ("session_alive", {"session": session_id}),
            ("promote_due", queues | {"limit": PROMOTE_LIMIT}),
            self._claim_statement(session_id, request),
            ("next_due", queues),
        ]

    def _in_one_transaction(self, statements: list[Statement]) -> list[Rows]:
        """Send all statements between BEGIN and COMMIT at once and return their rows."""
        self.connection.ensure_connection()
        try:
            return self._sent(statements, begin=True, commit=True)
        except BaseException:
            self._roll_back()
            raise

    def _sent(self, statements: list[Statement], *, begin: bool = False, commit: bool = False) -> list[Rows]:
        """Send all statements at once and return their rows.

        Plain psycopg cursors bind parameters on the server, so that each statement is planned once.
        BEGIN and COMMIT are never prepared: after an error, the server might lack what psycopg relies on.
        """
        driver: Any = self.connection.connection
        with driver.pipeline():
            if begin:
                Cursor(driver).execute("BEGIN", prepare=False)
            cursors = [
                Cursor(driver).execute(self._text(name), params, prepare=True, binary=True)
                for name, params in statements
            ]
            if commit:
                Cursor(driver).execute("COMMIT", prepare=False)
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def _converse(self, conversation: Conversation) -> Any:
        """Send BEGIN with the first step and COMMIT with the last."""
        if not self.private or self._in_transaction:
            return super()._converse(conversation)
        with self._alone(), translating(self.connection):
            step = next(conversation)
            self.connection.ensure_connection()
            try:
                return self._sent_in_steps(step, conversation)
            except BaseException:
                self._roll_back()
                raise

    def _sent_in_steps(self, step: Step, conversation: Conversation) -> Any:
        answers = self._sent(step.statements, begin=True, commit=step.is_last)
        while True:
            try:
                next_step = conversation.send(answers)
            except StopIteration as end:
                if not step.is_last:
                    self._execute("COMMIT")
                return end.value
            step = next_step
            answers = self._sent(step.statements, commit=step.is_last)

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        self._pointers.clear()
        return super().resync(session_id, held)

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        # Who takes a number later gets a later one: only those count who were there at first.
        return self._still("arriving", known)

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:  # noqa: ARG002
        return self._still("finishing", known)

    def _still(self, statement: str, known: frozenset[str] | None) -> frozenset[str]:
        there = frozenset(row[0] for row in self._rows(statement))
        return there if known is None else known & there

    def now_skew_seconds(self) -> float:
        clock: datetime = self._rows("clock")[0][0]
        return (clock - datetime.now(UTC)).total_seconds()

    def spaces(self) -> list[Space]:
        return [Space(*row) for row in self._rows("space")]

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:
        longest = [Transaction(*row) for row in self._rows("longest_transaction")]
        return list(untended(spaces, longest[0] if longest else None))

    def setting_problems(self) -> list[tuple[str, str]]:
        backend = self._rows("backend")[0][0]
        settings, info = self.connection.settings_dict, self.connection.connection.info
        isolation = isolation_in(settings) or self._rows("isolation")[0][0]
        return list(problems(settings, info.server_version, isolation, pooled=info.backend_pid != backend))

    def privilege_problems(self) -> list[tuple[str, str]]:
        return list(refused([row[0] for row in self._rows("refused_sequences")]))
