"""Messages by their row ids: what changes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.last_value import BY_LATER_VALUE
from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.message import Message, header_text
from django_mq.stores.records import Moved, headers_in, time_of
from django_mq.stores.sql.database import Part, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.stores.dead_letters import Copy
    from django_mq.stores.records import Failure
    from django_mq.stores.sql.database import Asking, Rows
    from django_mq.stores.sql.ends import Ends


#: Outcome numbers of the history table; models.History.Outcome names them.
ACCEPTED, EXPIRED, CANCELLED, PURGED, REPLACED, DEAD_LETTERED, MOVED, LIMITED, FORWARDED = range(1, 10)
#: The end of unheld messages that are removed with an outcome.
END_OF_OUTCOME = {
    EXPIRED: End.EXPIRED,
    CANCELLED: End.CANCELLED,
    PURGED: End.PURGED,
    REPLACED: End.REPLACED,
    DEAD_LETTERED: End.DEAD_LETTERED,
    LIMITED: End.CANCELLED,
}


#: By row id, the message id and the queue of messages.
Standing: TypeAlias = dict[int, tuple[str, str]]


def stayed(before: Standing) -> list[Moved]:
    """Return what has become of messages that keep their row ids."""
    return [Moved(id_, id_, queue) for id_, (_, queue) in before.items()]


def hexes(message_ids: Iterable[object]) -> list[str]:
    return [str(message_id).replace("-", "") for message_id in message_ids]


def _standing(rows: Rows) -> Standing:
    return {id_: (str(UUID(str(message_id))), queue) for id_, message_id, queue in rows}


def key_in(headers: str, header: str) -> str | None:
    """Return a header's text as the engine reads it; None for no header, null, no scalar, and no JSON."""
    return header_text(Message(id="", headers=headers_in(headers)), header)


@dataclass(eq=False)
class Messages(Part):
    """Remove, move and describe messages."""

    ends: Ends

    def remove(self, ids: Sequence[int], outcome: int, *, reason: str | None = None) -> list[int]:
        """Remove unheld messages, all or those with this reason; return their ids."""
        removing = partial(self._remove, ids, outcome, reason)
        return self.ends.after(ids, END_OF_OUTCOME[outcome], removing)

    def _remove(self, ids: Sequence[int], outcome: int, reason: str | None) -> list[int]:
        return first_of(self.rows("remove", ids=list(ids), outcome=outcome, reason=reason))

    def drop_replaced(self, ids: Sequence[int]) -> list[int]:
        """Remove messages that came back after a later value had replaced them; return their ids."""
        return self.remove(ids, REPLACED, reason=BY_LATER_VALUE) if ids else []

    def standing(self, ids: Sequence[int]) -> Standing:
        """Return where messages are: by row id, the message id and the queue."""
        return _standing(self.rows("standing", ids=list(ids))) if ids else {}

    def moved(self, before: Standing) -> list[Moved]:
        """Return what has become of messages that stay in their queues, where they may have other row ids now."""
        if not before:
            return []
        found = self.rows("standing_again", message_ids=hexes(message_id for message_id, _ in before.values()))
        now = {where: id_ for id_, where in _standing(found).items()}
        return [Moved(id_, now.get(where), where[1]) for id_, where in before.items()]

    def changed(self, statement: str, ids: Sequence[int], **given: Any) -> list[int]:
        """Run a statement that changes messages in place; return their ids."""
        return first_of(self.rows(statement, ids=list(ids), **given))

    def move_rows(self, ids: Sequence[int], target: str) -> list[Moved]:
        return self.ends.after_moving(ids, partial(self._move_rows, ids, target))

    def _move_rows(self, ids: Sequence[int], target: str) -> list[Moved]:
        rows = self.rows("move", ids=list(ids), target=target, outcome=MOVED)
        return [Moved(id_, new_id, target) for id_, new_id in rows]

    def copy_dead(self, copies: Sequence[Copy], target: str) -> set[int]:
        """Write dead messages into another queue, with other headers; return the ids of those that it took."""
        ids, message_ids, *texts = map(list, zip(*copies, strict=True))
        given = dict(zip(("headers", "properties", "causes"), texts, strict=True))
        rows = self.rows("copy_dead", target=target, ids=ids, **given)
        taken = {str(UUID(str(message_id))) for (message_id,) in rows}
        return {
            id_ for id_, message_id in zip(ids, message_ids, strict=True) if str(UUID(str(message_id))) in taken
        }

    def prioritise_rows(self, ids: Sequence[int], priority: int) -> list[Moved]:
        return self.ends.after_moving(ids, partial(self._prioritise_rows, ids, priority))

    def _prioritise_rows(self, ids: Sequence[int], priority: int) -> list[Moved]:
        before = self.standing(ids)
        new = set(first_of(self.rows("prioritise", ids=list(ids), priority=priority)))
        return [each for each in self.moved(before) if each.new_id in new]

    def set_places(self, places: Mapping[int, int]) -> None:
        """Write the places of messages by their ids."""
        if places:
            self.rows("set_places", ids=[*places], places=[*places.values()])

    def bury(self, ids: Sequence[int], reason: str) -> None:
        self.ends.after(ids, End.DEAD, partial(self._bury, ids, reason))

    def _bury(self, ids: Sequence[int], reason: str) -> list[int]:
        return first_of(self.rows("bury", ids=list(ids), reason=reason))

    def set_expired_aside(self, ids: Sequence[int]) -> None:
        """Mark expired messages dead, before they go to an expiry queue or are removed."""
        self.rows("set_expired_aside", ids=list(ids), reason=BY_EXPIRY, replaced=BY_LATER_VALUE)

    def arrive_again(self, ids: Sequence[int]) -> list[int]:
        """Make scheduled messages ready as the newest arrivals, in this order; return their new ids."""
        marks = self.ends.among(ids, End.MOVED)
        new = self.numbered_anew(ids)
        self.rows("make_ready", ids=new)
        if marks:
            moved = self.moved({id_: (str(mark.message_id), mark.queue) for id_, mark in marks.items()})
            now = {each.id: each.new_id for each in moved if each.new_id != each.id}
            self.ends.tell(marks, dict.fromkeys(now, End.MOVED), now)
        return new

    def numbered_anew(self, ids: Sequence[int]) -> list[int]:
        return first_of(self.rows("arrive_again", ids=list(ids)))

    def record_attempts(self, session_id: int, failed: Sequence[tuple[int, bool, Failure]]) -> None:
        """Record failed attempts of messages that are still there: (id, whether it counts, failure) of each."""
        ids, counted, failures = map(list, zip(*failed, strict=True))
        said = [failure.storable() for failure in failures]
        columns = {f"{name}s": [each[name] for each in said] for name in said[0]}
        self.rows("record_attempts", **named(session_id), ids=ids, counted=counted, **columns)

    def described(self, name: str, ids: Sequence[int], ask: Asking | None = None) -> dict[int, Message]:
        """Return messages of a queue by id, without their bodies, as selectors ask them."""
        [rows] = (ask or self.database.each)([("described", {"ids": list(ids)})])
        return {row[0]: described(name, row[1:]) for row in rows}

    def with_bodies(
        self, name: str, ids: Sequence[int], readable: Sequence[int], ask: Asking
    ) -> dict[int, Message]:
        """Return the same messages, the readable ones with their bodies and content types."""
        rows, bodies = ask([("described", {"ids": list(ids)}), ("bodies_to_limit", {"ids": list(readable)})])
        known = {row[0]: described(name, row[1:]) for row in rows}
        return known | {
            id_: replace(known[id_], content_type=content_type, body=bytes(body))
            for id_, content_type, body in bodies
            if id_ in known
        }


def described(queue: str, row: tuple[Any, ...]) -> Message:
    """Return a message without its body from a row of the statement ``described``."""
    message_id, type_, correlation_id, priority, size, headers, *times = row
    published_at, deliver_at, expires_at = (None if time is None else time_of(time).timestamp() for time in times)
    return Message(
        id=str(UUID(str(message_id))),
        headers=headers_in(headers),
        priority=priority,
        size=size,
        queue=queue,
        type=type_,
        correlation_id=correlation_id,
        published_at=published_at,
        deliver_at=deliver_at,
        expires_at=expires_at,
    )


def named(session_id: int) -> dict[str, Any]:
    """Return the session, and what to call it if its row does not exist any more."""
    return {"session": session_id, "nameless": f"session {session_id}"}
