"""The unique keys of a simulated queue, by the same steps as in every store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.decisions.expiry import is_expired
from django_mq.engine.decisions.keyed_limits import KeyedLimit
from django_mq.engine.decisions.unique import First, Standing, Unique, claim_of, ends_at, standing_of
from django_mq.engine.states import GONE, PARKED
from django_mq.errors import DuplicateMessage
from django_mq.stores.records import NewMessage
from django_mq.stores.subjects.unique_keys import Holder, UniqueKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue


@dataclass(frozen=True, slots=True)
class UniqueBy:
    """A rule for unique messages, and where the key of each is, in the words of limits by key."""

    key: str
    rule: Unique

    def of(self, message: Message) -> Unique | None:
        """Return the rule of a message; None if it has no key."""
        key = KeyedLimit(name="unique", key=self.key).key_of(message)
        return None if key is None else replace(self.rule, key=key or "all")


@dataclass(eq=False)
class SimulatedKeys(UniqueKeys):
    """The keys of one queue. ``messages`` and ``entries`` have what was published, by number."""

    queue: Queue
    by: UniqueBy
    messages: dict[int, Message]
    entries: dict[int, Entry]
    now: float = 0.0
    #: By number, the message whose body and whose work another message has got.
    bodies: dict[int, int] = field(default_factory=dict)
    #: By number, when a message is due that is debounced, or has got the time of another one.
    due: dict[int, float] = field(default_factory=dict)
    _firsts: dict[str, First] = field(default_factory=dict)

    def admit(self, number: int, now: float) -> NewMessage | None:
        """Take the key of a message; return what is to be published, None if another message has the key."""
        self.now, message = now, self.messages[number]
        new = NewMessage(queue_name="", message_id=UUID(int=number), body=b"", content_type="", type=message.type)
        if (rule := self.by.of(message)) is not None:
            new.unique = claim_of(rule, queue="queue", type_=message.type, owner=str(number), arguments=None)
        try:
            admitted = self.admitted([new], again=False)
        except DuplicateMessage:
            return None
        if not admitted:
            return None
        if (seconds := admitted[0].delay_seconds) is not None:
            self.due[number] = now + seconds
        return admitted[0]

    # What the steps call.

    def insert(self, message: NewMessage, claim: UniqueClaim) -> bool:
        is_new = claim.digest not in self._firsts
        if is_new:
            self.give(message, claim)
        return is_new

    def find(self, claim: UniqueClaim) -> tuple[First, Holder, float] | None:
        first = self._firsts.get(claim.digest)
        return None if first is None else (first, self._holder(first.message_id.int), self.now)

    def _holder(self, number: int) -> Holder:
        entry = self.entries.get(number)
        if entry is None or entry.state is GONE:
            return Holder(number, Standing.GONE)
        has_run, has_expired = entry.redelivered or entry.attempts > 0, is_expired(entry, self.now)
        return Holder(number, standing_of(entry.state, entry.cause, has_run=has_run, has_expired=has_expired))

    def give(self, message: NewMessage, claim: UniqueClaim) -> None:
        end = ends_at(claim.rule, self.now)
        self._firsts[claim.digest] = First(message.message_id, claim.owner, claim.rule.until, self.now, end)

    def go_on(self, message: NewMessage, claim: UniqueClaim) -> None:
        self._firsts[claim.digest] = self._firsts[claim.digest]._replace(message_id=message.message_id)

    def take_back(self, messages: Sequence[NewMessage]) -> None:
        for message in messages:
            if message.unique is not None:
                self._firsts.pop(message.unique.digest, None)

    def replace_body(self, id_: int, message: NewMessage) -> None:
        number = message.message_id.int
        given = self.messages[number]
        self.bodies[id_] = number
        self.messages[id_] = replace(
            self.messages[id_], body=given.body, type=given.type, content_type=given.content_type
        )

    def reschedule(self, id_: int, deliver_at: datetime) -> None:
        self.due[id_] = deliver_at.timestamp()
        self.queue.control.reschedule(self._waiting(id_), self.due[id_], self.now)

    def prioritise(self, id_: int, priority: int) -> None:
        copy = self.queue.control.change_priority(self._waiting(id_), priority, self.now)
        self.entries[id_] = copy or self.entries[id_]

    def _waiting(self, number: int) -> Entry:
        """Return an entry that waits, and is not parked any more."""
        entry = self.entries[number]
        if entry.state is PARKED:
            self.queue.control.free(entry)
        return entry

    def ahead(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(self.now, UTC) + timedelta(seconds=seconds)

    def free(self, digest: str) -> bool:
        return self._firsts.pop(digest, None) is not None

    def prune(self, limit: int) -> int:  # noqa: ARG002 - a simulation ends with its day
        return 0
