"""One message in one queue: what the tables of a database would say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.message import Message
from django_mq.engine.states import CLAIMED
from django_mq.stores.records import Browsed, Claimed
from django_mq.stores.waiting import WaitingMessage

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.engine.entry import Entry
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.session import WorkerSession
    from django_mq.stores.records import NewMessage

#: The mark of a claimed message that a later value has replaced.
BY_LATER_VALUE = "replaced"


class EndedClaim(NamedTuple):
    """A claim whose session was reaped: a late settlement may still name it."""

    session_id: int
    claim_number: int
    suspect: bool
    session: WorkerSession


@dataclass(slots=True, eq=False, kw_only=True)
class Row:
    """A live message. Its entry knows its place, state and attempts; here is the rest.

    An entry counts the delivery that is under way among its attempts. A row does so only
    when it is suspect: only then is the claim itself counted.
    """

    message: NewMessage
    queue: BrokerQueue
    entry: Entry
    published_at: datetime
    deliver_at: datetime | None
    expires_at: datetime | None
    #: Was held by a worker that died: it is delivered alone.
    suspect: bool = False
    session_id: int | None = None
    claimed_at: datetime | None = None
    #: What a last-value queue tells it by.
    value_key: str | None = None
    dead_reason: str = ""
    dead_at: datetime | None = None
    #: The claim that ended with its session's deadline, until something else becomes of the message.
    ended: EndedClaim | None = None

    @property
    def id(self) -> int:
        """The row id, which is the number of the entry's arrival."""
        return self.entry.arrival

    @property
    def held(self) -> bool:
        """Whether a session holds it."""
        return self.entry.state is CLAIMED

    @property
    def ready_at(self) -> datetime:
        """When it could first have been delivered."""
        return max(self.deliver_at or self.published_at, self.published_at)

    @property
    def attempts(self) -> int:
        """Deliveries that count."""
        return self.entry.attempts - (self.held and not self.suspect)

    def let_go(self) -> None:
        """No session holds it any more."""
        self.session_id = self.claimed_at = None

    def claimed(self, now: datetime) -> Claimed:
        """The row as its new holder gets it."""
        message, entry = self.message, self.entry
        return Claimed(
            id=self.id,
            claim=entry.claim_number,
            queue_name=self.queue.name,
            level=entry.level,
            place=entry.place,
            priority=message.priority,
            attempts=entry.attempts - 1,
            redelivered=entry.redelivered,
            suspect=self.suspect,
            expired=self.expires_at is not None and self.expires_at <= now,
            message_id=message.message_id,
            type=message.type,
            correlation_id=message.correlation_id,
            group_key=message.group_key,
            published_at=self.published_at,
            deliver_at=self.deliver_at,
            expires_at=self.expires_at,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=message.headers,
            properties=message.properties,
            body=message.body,
        )

    def waiting(self) -> WaitingMessage:
        """The row as it was published."""
        message = self.message
        return WaitingMessage(
            id=self.id,
            queue_name=self.queue.name,
            message_id=message.message_id,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=message.headers,
            properties=message.properties,
            body=message.body,
        )

    def browsed(self) -> Browsed:
        """The row as a browser sees it."""
        message, entry = self.message, self.entry
        return Browsed(
            id=self.id,
            message_id=message.message_id,
            queue_name=self.queue.name,
            state=entry.state.value,
            priority=message.priority,
            attempts=self.attempts,
            published_at=self.published_at,
            deliver_at=self.deliver_at,
            type=message.type,
            correlation_id=message.correlation_id,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=message.headers,
            body=message.body,
            dead_reason=self.dead_reason,
            level=entry.level,
            place=entry.place,
        )


def engine_message(message: NewMessage, deliver_at: datetime | None) -> Message:
    """Return as much of a message as the engine needs to place it.

    It is not told of the time to live: the engine would drop what has expired, and a store
    delivers it with a mark, because some consumers want to know.
    """
    return Message(
        id=str(message.message_id),
        priority=message.priority,
        size=len(message.body),
        deliver_at=None if deliver_at is None else deliver_at.timestamp(),
    )
