"""A queue, and a message, as the rows of their tables and of the history would describe them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from django_mq.engine.decisions.claim import is_paused
from django_mq.engine.decisions.dead_letters import EXPIRED, destination
from django_mq.engine.decisions.expiry import is_expired
from django_mq.engine.decisions.last_value import BY_LATER_VALUE
from django_mq.engine.decisions.queue_life import QueueLife
from django_mq.engine.decisions.retries import RELEASES, releases_in
from django_mq.engine.states import CLAIMED, DEAD, GONE, STEALABLE
from django_mq.inprocess.consumers.consumer import holder_of
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.rules import Rules
from django_mq.models import History
from django_mq.stores.dead_letters import DeadLetter
from django_mq.stores.records import EPOCH, LAST, Browsed, Claimed, NewMessage, engine_message, headers_in, later

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from django_mq.engine.message import Message
    from django_mq.engine.options import QueueOptions
    from django_mq.engine.states import State
    from django_mq.inprocess.broker import Broker
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.memory.session import MemorySession
    from django_mq.inprocess.queue import Queue
    from django_mq.stores.records import Receipt


class BrokerQueue:
    """A queue of the in-process broker, and the columns that a table would have besides."""

    def __init__(
        self, number: int, name: str, settings: QueueOptions, broker: Broker, created_at: datetime
    ) -> None:
        self.number = number
        self.name = name
        self.settings = settings
        self.paused_until: datetime | None = None
        self.created_at = created_at
        self.used_at: datetime | None = None
        #: Messages that it has dropped because it was full.
        self.dropped = 0
        #: The queue that decides.
        self.inner: Queue = broker.declare(name, Rules.of(settings))
        #: The session of each consumer.
        self.sessions: dict[Consumer, int] = {}

    @property
    def rows(self) -> list[LiveMessage]:
        return [row_of(entry) for entry in self.inner.contents.everything()]

    @property
    def life(self) -> QueueLife:
        options = self.settings
        return QueueLife(self.name, options.auto_delete, options.expires_seconds, self.created_at, self.used_at)

    def in_slots(self) -> frozenset[int]:
        return frozenset(self.sessions[consumer] for consumer in self.inner.subscribers.live())

    def owner_of(self, group: str) -> int | None:
        owner = self.inner.subscribers.group_owner(group)
        return None if owner is None else self.sessions[owner]

    def end_pause(self, now: datetime) -> None:
        if self.inner.paused and not is_paused(True, self.paused_until, now):
            self.inner.control.resume()


class EndedClaim(NamedTuple):
    """A claim whose session was reaped: a late settlement may still name it."""

    session_id: int
    claim_number: int
    suspect: bool
    session: MemorySession


Record = TypeVar("Record")


@dataclass(slots=True, eq=False, kw_only=True)
class LiveMessage:
    """A live message, which travels with the message of its entry: its entry knows nearly everything.

    An entry counts the delivery that is under way among its attempts. A row does so only
    when it is suspect: only then is the claim itself counted.
    """

    message: NewMessage
    published_at: datetime
    deliver_at: datetime | None
    headers: Mapping[str, object]
    entry: Entry = field(init=False)
    queue: BrokerQueue = field(init=False)
    is_new: bool = True
    #: Whether another broker has it.
    is_forwarded: bool = False
    session_id: int | None = None
    claimed_at: datetime | None = None
    #: When it last came back, as in the table.
    released_at: datetime | None = None
    #: When a session last declined it.
    declined_at: datetime | None = None
    #: The claim that ended with its session's deadline, until something else becomes of the message.
    ended: EndedClaim | None = None
    #: The row of the history for the queue that it leaves as a dead letter or an expired message.
    left: SimpleNamespace | None = None

    def stands_as(self, entry: Entry, queue: BrokerQueue) -> None:
        """Note the queue, which the message has entered from a publisher or from another queue."""
        self.entry, self.queue, self.ended = entry, queue, None
        self.let_go()
        message = entry.message
        if message.headers is not self.headers:  # it has died, or expired, elsewhere
            self.headers = message.headers
            self.published_at, self.deliver_at = moment(message.published_at or 0.0), None
            self.released_at = None
            self.message = replace(self.message, headers=json.dumps(dict(message.headers)))
        if message.priority != self.message.priority:
            self.message = replace(self.message, priority=message.priority)

    def remember_place(self, now: datetime) -> None:
        """Before it stands in another queue, note what the history will say of this one."""
        if not self.is_new and self.entry.state is not GONE:
            self.left = self.finished(History.Outcome.DEAD, now)
            # As in the headers of the message there: the delivery that a stealable entry loses has not failed.
            self.left.attempts = self.entry.attempts - (self.entry.state is STEALABLE)
            self.left.session_id = self.left.claimed_at = None
        self.is_new = False

    @property
    def id(self) -> int:
        return self.entry.arrival

    @property
    def held(self) -> bool:
        return self.entry.is_claimed

    @property
    def state(self) -> State:
        """The state in a table: a message that may be taken back is claimed."""
        return CLAIMED if self.held else self.entry.state

    @property
    def ready_at(self) -> datetime:
        return max(self.deliver_at or self.published_at, self.published_at, self.released_at or self.published_at)

    @property
    def expires_at(self) -> datetime | None:
        return None if self.entry.expires_at is None else moment(self.entry.expires_at)

    @property
    def attempts(self) -> int:
        return self.entry.attempts - (self.held and not self.entry.suspect)

    @property
    def leaves_expired(self) -> bool:
        """Whether it is sent somewhere when it has expired."""
        return destination(self.queue.settings, EXPIRED) is not None and not self.entry.replaced

    def set_header(self, name: str, value: int | None) -> None:
        others = {key: each for key, each in self.headers.items() if key != name}
        self.headers = others if value is None else {**others, name: value}
        self.message = replace(self.message, headers=json.dumps(self.headers))
        self.entry.message = replace(self.entry.message, headers=self.headers)

    def replace_body(self, message: NewMessage) -> None:
        given = {name: getattr(message, name) for name in ("body", "type", "content_type", "content_encoding")}
        self.message, size = replace(self.message, **given), len(message.body)
        self.queue.inner.contents.statistics.enqueued_bytes += size - self.entry.message.size
        self.entry.message = replace(self.entry.message, type=message.type, size=size)

    def count_release(self) -> None:
        """Count that the message is given back for a while without an attempt."""
        properties = dict(headers_in(self.message.properties or "{}"))
        properties[RELEASES] = releases_in(properties) + 1
        self.message = replace(self.message, properties=json.dumps(properties))

    def let_go(self) -> None:
        self.session_id = self.claimed_at = None

    def give_back(self, now: datetime, *, delivered: bool = True) -> None:
        """Take the message from its session, uncounted."""
        holder = holder_of(self.entry)
        if holder is not None:
            self.let_go()
            self.released_at = now
            self.queue.inner.release(self.entry, holder, delivered=delivered)

    def free(self, now: datetime) -> None:
        """Make the message ready, which is parked."""
        self.released_at = now
        self.queue.inner.control.free(self.entry)

    @property
    def receipt(self) -> Receipt:
        return self.id, self.entry.claim_number

    def claimed(self, now: datetime) -> Claimed:
        entry, expired = self.entry, is_expired(self.entry, now.timestamp())
        return self._told(Claimed, claim=entry.claim_number, attempts=entry.attempts - 1, expired=expired)

    def browsed(self) -> Browsed:
        reason = BY_LATER_VALUE if self.entry.replaced else self.entry.cause
        return self._told(Browsed, state=self.state.value, dead_reason=reason)

    def dead_letter(self, now: datetime, cause: str | None = None) -> DeadLetter:
        """Return the message at its end in this queue."""
        return DeadLetter(
            self.id,
            self.message.message_id,
            self.queue.name,
            self.message.headers,
            self.message.properties,
            self.attempts,
            self.entry.cause if cause is None or self.entry.state is DEAD else cause,
            now if self.entry.died_at is None else moment(self.entry.died_at),
        )

    def finished(self, outcome: History.Outcome, now: datetime) -> SimpleNamespace:
        """Return the fields of ``History``; making an instance of the model takes as long as all the rest."""
        ended_well = self.session_id is not None and outcome not in {
            History.Outcome.EXPIRED,
            History.Outcome.REPLACED,
        }
        return self._told(
            SimpleNamespace,
            outcome=outcome,
            # The delivery that ends well is not a failed attempt.
            attempts=self.entry.attempts - ended_well,
            finished_at=now,
            headers=json.loads(self.message.headers),
            body=self.message.body if self.queue.settings.history_body else None,
        )

    def _told(self, kind: type[Record], **known: Any) -> Record:
        """Return a record with the fields that are ``known``, and the others by their names."""
        names, read = SOURCES[kind]
        return kind(**dict(zip(names, read(self), strict=True)) | known)


#: The attribute of a row that is a record's field: of the row, its entry, or the message as it was published.
SAID = {name: name for name in ("id", "attempts", "published_at", "deliver_at", "expires_at", "ready_at")}
SAID |= {"claimed_at": "claimed_at", "session_id": "session_id", "queue_name": "queue.name"}
SAID |= {name: f"entry.{name}" for name in ("level", "place", "redelivered", "suspect")}
SAID = {field.name: f"message.{field.name}" for field in fields(NewMessage)} | SAID


def _sources(names: list[str]) -> tuple[list[str], attrgetter[tuple[Any, ...]]]:
    """Return the names of a record's fields that a row has, and one getter for all, which is the fastest."""
    found = [name for name in names if name in SAID]
    return found, attrgetter(*(SAID[name] for name in found))


#: For each kind of record, what ``_sources`` returns.
SOURCES: dict[type, tuple[list[str], attrgetter[tuple[Any, ...]]]] = {
    **{kind: _sources([each.name for each in fields(kind)]) for kind in (Claimed, Browsed)},
    SimpleNamespace: _sources([each.name for each in History._meta.concrete_fields]),
}


def row_of(entry: Entry) -> LiveMessage:
    return cast("LiveMessage", entry.message.body)


def new_message(message: NewMessage, now: datetime, *, is_constrained: bool) -> Message:
    """Return a new message of the engine, with its row. Its duplicate id counts if it ``is_constrained``."""
    deliver_at = _time(message.deliver_at, message.delay_seconds, now)
    expires_at = _time(message.expires_at, message.ttl_seconds, now)
    row = LiveMessage(
        message=message, published_at=now, deliver_at=deliver_at, headers=headers_in(message.headers)
    )
    own = {"group": message.group_key, "duplicate_id": message.dedup_id if is_constrained else None}
    return engine_message(message, row.headers, (now, deliver_at, expires_at), body=row, **own)


def _time(at: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    return at if at is not None or seconds is None else later(now, seconds)


def entry_of(browsed: Browsed) -> Entry:
    """Return an entry at the position where a message was when it was read."""
    return Entry(browsed.as_message(), browsed.level, browsed.place, browsed.id)


def moment(seconds: float) -> datetime:
    """Return a time of the broker as an aware time, the end of the calendar at most."""
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


#: The most finished messages, and failed attempts, that are remembered.
MOST_REMEMBERED = 10_000
