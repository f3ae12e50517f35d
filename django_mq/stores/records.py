"""The values that cross the store interface, and times and texts as any database can store them.

Times are aware datetimes by the database's clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from django_mq import conf
from django_mq.engine.decisions.claim import MOST_BYTES, ByteCredit, left_behind
from django_mq.engine.decisions.declared import declared_in
from django_mq.engine.decisions.selection import Assignment
from django_mq.engine.decisions.unusual import UsualRun
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.engine.states import REJECTED
from django_mq.errors import WorkerLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from django_mq.engine.decisions.declared import Declared
    from django_mq.engine.decisions.ends import RunOutcome
    from django_mq.engine.decisions.selection import Wanted
    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.engine.decisions.verdict import Decision


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class NewMessage:
    """A checked and encoded message on its way into one queue. Do not change it.

    It is not frozen, because a frozen one takes three times as long to make.

    ``deliver_at`` and ``delay_seconds`` exclude each other, as do ``expires_at`` and
    ``ttl_seconds``; the relative ones are added to the database's clock on insert.
    """

    queue_name: str
    message_id: UUID
    body: bytes
    content_type: str
    content_encoding: str = "utf-8"
    headers: str = "{}"
    properties: str | None = None
    priority: int = 4
    type: str = ""
    correlation_id: str | None = None
    group_key: str | None = None
    deliver_at: datetime | None = None
    delay_seconds: float | None = None
    expires_at: datetime | None = None
    ttl_seconds: float | None = None
    dedup_id: str | None = None
    #: The place that a sorted or fair queue gives it; None for the place that its time of delivery says.
    place: int | None = None
    #: The exchange that it was published to, which is not stored; blank for a message to a queue.
    exchange: str = ""
    #: The listenings that are told its ends, by name, with spaces between; None for none.
    told_to: str | None = None
    #: What it claims if it is unique.
    unique: UniqueClaim | None = None

    def as_message(self, published_at: datetime) -> Message:
        """Return the message without its body, as the engine's selectors read it."""
        return engine_message(self, headers_in(self.headers), (published_at, self.deliver_at, self.expires_at))

    def multiplied(
        self, message_ids: Iterable[bytes], bodies: Sequence[bytes], times: Times | None
    ) -> Iterator[NewMessage]:
        """Yield messages like this one but for their ids, 16 bytes each, bodies, and times if given."""
        moments = repeat((self.deliver_at, self.expires_at), len(bodies)) if times is None else times.moments()
        for id_, body, (due, end) in zip(message_ids, bodies, moments, strict=True):
            yield replace(self, message_id=UUID(bytes=id_), body=body, deliver_at=due, expires_at=end)


@dataclass(frozen=True, slots=True)
class Times:
    """When each of many messages is due and expires: microseconds since 1970, None where it does not say."""

    deliver_at: Sequence[int | None]
    expires_at: Sequence[int | None]

    def moments(self) -> Iterator[tuple[datetime | None, datetime | None]]:
        """Yield the same as aware datetimes."""
        return zip(map(_moment, self.deliver_at), map(_moment, self.expires_at), strict=True)


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord(QueueOptions):
    """A queue's row: its options, and what else publishing and consuming need."""

    id: int
    name: str
    closed: bool
    paused: bool
    #: Whether its consumers have different priorities, as of their last heartbeats.
    priorities_differ: bool = False
    #: The mark of the declared selectors that all of its messages were asked.
    covered_by: int | None = None
    #: What ``has_publish_rules`` and ``is_followed`` say: every publish asks.
    is_constrained: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_constrained", self.has_publish_rules or self.is_followed)

    @property
    def is_followed(self) -> bool:
        """Whether an extension writes something when messages are published to the queue."""
        # Only queues with options of extensions pay for the look at these.
        options = conf.extensions().queue_options if self.added else ()
        return any(option.at_publishing and option.value_in(self) for option in options)

    @property
    def has_claim_rules(self) -> bool:
        """Whether a claim depends on other sessions, or on limits."""
        return self.depends_on_others or self.has_claim_limits

    @property
    def depends_on_others(self) -> bool:
        """Whether a claim depends on other sessions."""
        return self.depends_on_sessions(priorities_differ=self.priorities_differ)

    @property
    def may_pass_many(self) -> bool:
        """Whether a claim may pass many messages before those that it takes."""
        return self.has_groups or self.priorities_differ

    @property
    def has_claim_limits(self) -> bool:
        """Whether claims ask limits of extensions."""
        limits = conf.extensions().limits
        return bool(limits) and any(each.is_for(self.name) for each in limits)

    @property
    def declared(self) -> Declared | None:
        """The declared selectors that all messages were asked."""
        declared = declared_in(self.selectors) if self.covered_by else None
        return declared if declared is not None and declared.mark == self.covered_by else None


#: One claim of one message: the row's id and the claim token.
Receipt: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class Claimed:
    """A message this session holds: the receipt (id and claim) and all that was stored.

    ``headers`` and ``properties`` are the stored JSON text. The delivery decodes them, so that one corrupt row
    cannot stop a batch.
    """

    id: int
    claim: int
    queue_name: str
    level: int
    place: int
    priority: int
    attempts: int
    redelivered: bool
    suspect: bool
    expired: bool
    message_id: UUID
    type: str
    correlation_id: str | None
    group_key: str | None
    published_at: datetime
    deliver_at: datetime | None
    expires_at: datetime | None
    content_type: str
    content_encoding: str
    headers: str
    properties: str | None
    told_to: str | None
    body: bytes

    @property
    def receipt(self) -> Receipt:
        return self.id, self.claim

    def as_message(self) -> Message:
        """Return the message without its body, as the engine's selectors read it."""
        times = (self.published_at, self.deliver_at, self.expires_at)
        return engine_message(self, headers_in(self.headers), times)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in one attempt; becomes a row of ``Attempt``."""

    error: str
    detail: str = ""
    traceback: str = ""
    #: The module and the qualified name of the exception's class.
    error_path: str = ""

    @classmethod
    def of(cls, error: BaseException, traceback: str = "") -> Failure:
        """Return the failure. Leave the traceback out if it would be django_mq's own."""
        return cls(type(error).__name__, _words_of(error), traceback, path_of(type(error)))

    def storable(self) -> dict[str, str]:
        """Return the fields as any database can store them."""
        return {
            "error": storable(self.error, 255),
            "error_path": storable(self.error_path, 255),
            "detail": told(self.detail),
            "traceback": told(self.traceback),
        }


def path_of(kind: type) -> str:
    """Return the module and the qualified name of a class, as Django's tasks name exceptions."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the __str__ of the user's exception may raise anything
        return ""


def failed_attempt(
    failure: Failure,
    *,
    queue_name: str,
    number: int,
    worker: str,
    message_id: UUID | None = None,
    correlation_id: str | None = None,
    type: str = "",  # noqa: A002 - as the field
) -> dict[str, Any]:
    """Return the fields of a failed attempt, as any database can store them."""
    return failure.storable() | {
        "message_id": message_id,
        "correlation_id": correlation_id,
        "queue_name": storable(queue_name, 200),
        "type": storable(type, 255),
        "number": number,
        "worker": storable(worker, 255),
    }


#: The failure of an attempt that its worker did not survive.
WORKER_LOST = Failure.of(
    WorkerLost(
        "The worker ended while it held the message alone, or could not renew its session before the deadline."
    )
)


@dataclass(frozen=True, slots=True)
class Lease:
    """The database and the worker session that claimed a message."""

    alias: str
    session_id: int


class Write(NamedTuple):
    """What is to be written, with what other writes have of the same function.

    It may be written twice, and also if the verdict turns out to be void.
    """

    function: Callable[[Any, list[Any]], None]
    value: Any


def write_all(store: Any, writes: Iterable[Write]) -> None:
    """Call each function once, with the store and the values. Raises StoreError."""
    values: dict[Callable[[Any, list[Any]], None], list[Any]] = {}
    for write in writes:
        values.setdefault(write.function, []).append(write.value)
    for function, those in values.items():
        function(store, those)


#: Parking keys are as long as this at most.
PARK_KEY_LENGTH = 255


class Parked(NamedTuple):
    """A ready message that is to be parked, and the key that frees it; ``seconds`` is None for no other end."""

    id: int
    key: str
    seconds: float | None = None


@dataclass(slots=True, unsafe_hash=True)
class Settlement:
    """One verdict over one claimed message, fenced by its claim token.

    Do not change it; as ``NewMessage`` it is not frozen. ``counted`` adds the delivery to the message's attempts.
    ``delay_seconds`` holds a released message back, in its place. ``reason`` says why a message is dead. A parked
    message waits until its ``park_key`` is freed, or for ``delay_seconds``, 0 for no end.
    """

    id: int
    claim: int
    verdict: Verdict
    counted: bool = False
    delay_seconds: float = 0.0
    reason: str = ""
    failure: Failure | None = None
    #: As in the claimed message.
    told_to: str | None = None
    #: Whether ``told_to`` has listenings that the message has not yet.
    marks: bool = False
    #: What is written before the verdict, None for nothing.
    first: Write | None = None
    park_key: str = ""
    #: How the run went, where the verdict does not say so.
    outcome: RunOutcome | None = None
    #: What the handler has returned, as JSON, if a listening asks for it.
    returned: str | None = None

    @property
    def receipt(self) -> Receipt:
        return self.id, self.claim

    @classmethod
    def of(
        cls, claimed: Claimed, decision: Decision, reason: str = "", failure: Failure | None = None
    ) -> Settlement:
        """Return the settlement that the engine has decided; only a dead message keeps the ``reason``."""
        kept = (reason or REJECTED) if decision.verdict is Verdict.DEAD else ""
        return cls(claimed.id, claimed.claim, *decision, kept, failure, claimed.told_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Ask for at most ``credit`` ready messages, in order, and of each queue at most its limit, if it has one.

    Several queues are merged by message priority, and queues of equal heads take turns; ``listed`` makes the order
    of the list strict instead. A suspect message is claimed only when ``slots`` is positive, alone in its batch,
    and that claim counts an attempt. ``promote=False`` says that no message is due now, which saves a question;
    the answer's ``next_due_seconds`` is 0 if that was wrong. A store may begin at the session's cursor in a queue;
    with ``full_scan`` it begins at the head. The bodies have at most ``max_bytes`` bytes together, unless the
    first one alone has more; and those of a queue with ``byte_credit`` no more than it allows. The session runs
    the messages of a group one after the other if their queue is named ``in_order``: then a claim may bring
    several of a group. Of a queue in ``wanted``, it brings only messages that belong to one of these handlers, and
    of each no more than its limit: see ``decisions/selection.py``. A queue with limits by key gives as many as
    there are ``slots``, and ``ahead`` more that the session begins soon, as far as the limits let them wait.

    A claim for a ``consumer`` names one queue, and brings what the consumer wants and has credit for: see
    ``Store.subscribe``. A claim for a target names no queue: the queues that the target reads take turns.
    """

    queues: tuple[str, ...]
    credit: int
    slots: int = 1
    ahead: int = 0
    listed: bool = False
    promote: bool = True
    full_scan: bool = False
    max_bytes: int = MOST_BYTES
    limits: Mapping[str, int] = field(default_factory=dict)
    byte_credit: Mapping[str, ByteCredit] = field(default_factory=dict)
    in_order: frozenset[str] = frozenset()
    wanted: Mapping[str, Sequence[Wanted]] = field(default_factory=dict)
    #: A consumer or a target of the in-process broker; other stores refuse it.
    consumer: object | None = None

    def left_behind(self, claimed: Sequence[Claimed], seen: int) -> frozenset[str]:
        """Return the queues in which the claim may have left messages; it could have claimed ``seen`` messages."""
        left = left_behind(self, [item.queue_name for item in claimed], seen)
        for queue, wanted in self.wanted.items():
            mine = [item for item in claimed if item.queue_name == queue]
            if len(wanted) > 1 and Assignment(wanted, Claimed.as_message).until_used_up(mine) is not None:
                left |= {queue}
        return left


@dataclass(slots=True)
class ClaimResult:
    """The result of one round trip: claimed messages in order, and when to look again.

    ``left`` has the queues in which the claim may have left messages; other queues were empty at that moment.
    ``next_due_seconds`` is the time until the earliest scheduled message, None if there is none. ``full_scan`` is
    false when the claim did not begin at the head, and may have passed messages that came back:
    ``next_due_seconds`` is then no later than the time for a full scan. ``void`` has the row ids of settlements
    whose lease was lost: they changed nothing. With ``constrained``, a settlement may make other messages ready,
    for example of the same group: look again after each. ``grouped`` has the queues whose messages of a group run
    one after the other. ``declined`` says that the session has declined messages of these queues.
    """

    claimed: list[Claimed] = field(default_factory=list)
    left: frozenset[str] = frozenset()
    next_due_seconds: float | None = None
    full_scan: bool = True
    void: frozenset[int] = frozenset()
    constrained: bool = False
    grouped: frozenset[str] = frozenset()
    declined: bool = False

    @property
    def more(self) -> bool:
        """Whether another claim may find messages at once."""
        return bool(self.left)


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """What an operator has told a session. ``credit`` is for each of its consumers, None for their own."""

    mode: WorkerMode = WorkerMode.WORK
    credit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """How a worker describes itself when it opens a session."""

    name: str
    kind: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...] = ()
    credit: int = 0
    #: What an operator had told it, when it is opened again.
    told: WorkerCommand = WorkerCommand()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerInfo:
    """One consumer of a session, as shown to the operator."""

    queue_name: str
    handler: str = ""
    priority: int = 0
    state: str = "interested"
    credit_limit: int = 0
    credit_used: int = 0
    delivered: int = 0
    #: Which messages it wants; blank for all.
    selector: str = ""


class BegunRun(NamedTuple):
    """A run that goes on after its message is gone: of a task that was acknowledged when it began."""

    message_id: str
    queue: str
    #: How long its worker has seen earlier runs take; no row says it.
    usual: UsualRun | None = None


class Running(NamedTuple):
    """One message that is being handled, as a heartbeat reports it."""

    id: int
    claim: int
    handler: str
    #: For how long it runs.
    seconds: float
    #: What its row would say, if it is gone.
    begun: BegunRun | None = None

    @property
    def receipt(self) -> Receipt:
        return self.id, self.claim


def running_in(stored: Iterable[Sequence[Any]] | None) -> list[Running]:
    """Return what runs, from the row of a session. Rows of earlier releases know no runs without messages."""
    return [
        Running(id_, claim, handler, seconds, _begun(*begun[0]) if begun and begun[0] else None)
        for id_, claim, handler, seconds, *begun in stored or ()
    ]


def _begun(message_id: str, queue: str, usual: Sequence[Any] | None) -> BegunRun:
    return BegunRun(message_id, queue, UsualRun(*usual) if usual else None)


#: A heartbeat reports at most so many messages that run, those that run for longest.
MOST_RUNNING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a session reports when it renews its deadline."""

    deadline_seconds: float
    held: int = 0
    queues: tuple[str, ...] = ()
    credit: int = 0
    consumers: tuple[ConsumerInfo, ...] = ()
    #: Messages that are handled now, the most at a time, and the memory of the process; None where unknown.
    busy: int | None = None
    slots: int | None = None
    memory_bytes: int | None = None
    #: What is being handled, at most ``MOST_RUNNING``.
    running: tuple[Running, ...] = ()
    #: Whether to say if messages wait for the session; a session without credit need not know.
    look: bool = True


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a heartbeat: the session lives. The leader does the maintenance for all workers.

    ``ready`` is false if the store knows that no message waits in the session's queues.
    """

    leader: bool
    ready: bool = True
    command: WorkerCommand = WorkerCommand()
    #: The claims that the session is asked to stop. They are repeated until ``forget_stops``.
    stops: frozenset[Receipt] = frozenset()


#: The ready messages of each level that a store reads to find the one that has been waiting for longest. No index
#: has the times: behind messages that came back, and in a sorted queue, any message may be the oldest.
AGES_READ = 100


def all_are_read(ready: int, limit: int) -> bool:
    """Whether the age of the oldest message is exact, of so many ready ones, counted up to a limit."""
    return ready < limit and ready <= AGES_READ


#: The scheduled messages of a queue, those due first, whose rows are read to count the retrying ones. Backoffs are
#: short beside other delays, so that few are missed. With 300 queues 1,000 took nine tenths of the time of all
#: counts.
RETRYING_READ = 200


@dataclass(frozen=True, slots=True)
class Counts:
    """How many messages of a queue are in each state, up to a limit, and how long the oldest one waits."""

    scheduled: int = 0
    ready: int = 0
    claimed: int = 0
    dead: int = 0
    #: How long the message that has been waiting for longest could have been delivered; None if there is none.
    oldest_ready_seconds: float | None = None
    #: How many of the scheduled ones are due. A worker's next claim makes them ready.
    due: int = 0
    #: How many of the scheduled ones have failed and wait for their next attempt.
    retrying: int = 0
    #: Whether all ready messages were read for the age; else another one may have been waiting for longer.
    is_oldest_exact: bool = True
    #: How many wait until their key is freed, or for a time.
    parked: int = 0

    @property
    def deliverable(self) -> int:
        """How many messages a worker could be given now."""
        return self.ready + self.due

    @property
    def total(self) -> int:
        return self.scheduled + self.ready + self.parked + self.claimed + self.dead


@dataclass(frozen=True, slots=True)
class Reaped:
    """One dead session: how many of its messages were given back, and how many are dead."""

    session_id: int
    name: str
    released: int
    dead: int


@dataclass(frozen=True, slots=True)
class Browsed:
    """A message as it is stored, read without a claim."""

    id: int
    message_id: UUID
    queue_name: str
    state: int
    priority: int
    attempts: int
    published_at: datetime
    deliver_at: datetime | None
    expires_at: datetime | None
    type: str
    correlation_id: str | None
    group_key: str | None
    content_type: str
    content_encoding: str
    headers: str
    body: bytes
    dead_reason: str
    #: The position in its queue, where the next page of a browser begins.
    level: int = 0
    place: int = 0
    #: Stored JSON text, as ``headers``; None where it was not read.
    properties: str | None = None

    def as_message(self) -> Message:
        """Return the message without its body, as the engine's selectors read it."""
        times = (self.published_at, self.deliver_at, self.expires_at)
        return engine_message(self, headers_in(self.headers), times)


def engine_message(
    stored: NewMessage | Browsed | Claimed,
    headers: Mapping[str, object],
    times: tuple[datetime, datetime | None, datetime | None],
    **others: Any,
) -> Message:
    """Return a message of the engine; ``times`` are those of publication, delivery and expiry."""
    published_at, deliver_at, expires_at = times
    return Message(
        id=str(stored.message_id),
        headers=headers,
        priority=stored.priority,
        size=len(stored.body),
        queue=stored.queue_name,
        type=stored.type,
        content_type=stored.content_type,
        correlation_id=stored.correlation_id,
        published_at=published_at.timestamp(),
        deliver_at=None if deliver_at is None else deliver_at.timestamp(),
        expires_at=None if expires_at is None else expires_at.timestamp(),
        **others,
    )


class Moved(NamedTuple):
    """A message that an operator has changed: its row id before and now, and its queue now."""

    id: int
    #: None if the message is gone: another value has replaced it.
    new_id: int | None
    queue: str


class LockHolder(NamedTuple):
    """A transaction that keeps a lock of a queue from others."""

    queue: str
    #: The name of the worker's session; else what the database knows of the connection.
    name: str
    #: The number by which the database ends the connection.
    connection: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.name!r} has held a lock of queue {self.queue!r} for {self.seconds:.0f} s"


#: Unused bytes from which rebuilding a table is worth it.
MUCH_LOOSE = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Space:
    """The size of a table by the database's own statistics; None where they say nothing."""

    table: str
    #: Bytes with indexes, and how many of them are unused.
    size: int
    loose: int = 0
    rows: int | None = None
    #: Old versions of rows that are not cleaned up yet, and seconds since the last cleanup.
    dead_rows: int | None = None
    tended_seconds: float | None = None
    #: The table's own settings.
    settings: str = ""

    @property
    def is_mostly_loose(self) -> bool:
        """Whether much of the space, and more than half of it, is unused."""
        return self.loose > MUCH_LOOSE and self.loose > self.size // 2


# Times and texts that any database can store.
#
# An exception may name a file with a name that is no text, or quote a body with a zero byte in it. PostgreSQL
# refuses both, and a verdict that cannot be written would be tried for ever.

LAST = datetime.max.replace(tzinfo=UTC)


def time_of(value: Any) -> datetime:
    """Return the aware time that a column holds; SQLite's is a text."""
    time: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def time_or_none(value: Any) -> datetime | None:
    """Return the aware time that a column holds, None where it holds none."""
    return None if value is None else time_of(value)


def headers_in(text: str) -> Mapping[str, object]:
    """Return the headers in a stored text of JSON; none where the text is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}  # a row that was not written by a publisher
    return found if isinstance(found, dict) else {}


def later(now: datetime, seconds: float) -> datetime:
    """Return the time so many seconds ahead; the end of the calendar is far enough."""
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def storable(text: str, limit: int | None = None) -> str:
    """Return the text, cut to the limit, with escapes for characters that a database refuses."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return plain[:limit]


#: Characters kept of what an exception says, and of its traceback: it may quote a body of megabytes.
LONGEST = 20_000


def told(text: str) -> str:
    """Return what an exception says, or its traceback, as any database can store it and any page can show it.

    Of a longer text than ``LONGEST`` both ends are kept, as tracebacks say why at theirs.
    """
    plain = storable(text)
    if len(plain) <= LONGEST:
        return plain
    gap = f"\n[{len(plain) - LONGEST:,} characters left out]\n"
    half = (LONGEST - len(gap)) // 2
    return f"{plain[:half]}{gap}{plain[-half:]}"


def uuid_of(text: str) -> UUID | None:
    """Return the UUID that a text spells, None if it spells none."""
    try:
        return UUID(text)
    except ValueError:
        return None
