"""Claims from queues with rules: who else is there, and what is left for this session.

A claim from such a queue waits for its turn, so that what it reads of others is true until it
commits. It reads the ready messages that this session may have, in order; those of several
queues are merged; then they are locked and leased. Queues without rules never come here, unless
a claim names one beside a queue with rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.arbiter import Situation, Subscription, award, rivals_of
from django_mq.engine.claim import limit_of
from django_mq.engine.merge import merged, next_batch
from django_mq.stores.sql.remembering import Remembering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django_mq.engine.arbiter import Rival
    from django_mq.stores.records import ClaimRequest, QueueRecord

#: Messages read at a time in search of those that this session may have.
PAGE = 200
#: What a strict queue has left in a claim that has met a message that cannot be had now.
HALTED = -1


class Candidate(NamedTuple):
    """A ready message that this session may have."""

    id: int
    priority: int
    suspect: bool
    group: str | None
    level: int
    place: int
    size_bytes: int
    owner: int | None = None


class Ruling(Remembering):
    """Choose what a session may have of queues with rules."""

    #: Whether the last claim left messages to sessions of higher priority.
    _left_some: bool = False

    def _choose(self, session_id: int, request: ClaimRequest) -> list[tuple[QueueRecord, Candidate]]:
        """Return what the session may have, best first, locked up to the credit. Waits for the queues' turns."""
        self._left_some = False
        # In one order for all, or two claimers could wait for each other.
        records = {name: self._in_turn(name) for name in sorted(set(request.queues))}
        heads, limits = [], {name: limit_of(request, name) for name in request.queues}
        for name, limit in limits.items():
            record = records[name]
            if record is not None and not record.paused:
                heads.append([(record, item) for item in self._candidates(session_id, record, limit)])
        by_id = {item.id: (record, item) for head in heads for record, item in head}
        ranked = merged([[(item.id, item.priority) for _, item in head] for head in heads], listed=request.listed)
        free = self._obtained(ranked, by_id, request.credit, limits)
        return [by_id[id_] for id_ in ranked if id_ in free]

    def _in_turn(self, name: str) -> QueueRecord | None:
        if self._is_ruled(name):
            self._take_turn(name)
        # Read once it is our turn: it may have changed while we waited.
        return self.queue(name)

    def _take_turn(self, name: str) -> None:
        """Wait until nobody else claims from the queue, and keep others out until the transaction ends."""
        self._rows("take_turn", queue=name)

    def _obtained(
        self,
        ranked: Sequence[int],
        by_id: Mapping[int, tuple[QueueRecord, Candidate]],
        credit: int,
        limits: dict[str, int],
    ) -> set[int]:
        """Lock the best, as many as asked for; a strict queue ends at one that cannot be had now."""
        queue_of = {id_: record.name for id_, (record, _) in by_id.items()}
        untried, found = dict.fromkeys(ranked), set[int]()
        while batch := next_batch(untried, credit - len(found), queue_of, limits):
            free = {row[0] for row in self._rows("lock_chosen", ids=batch)}
            for id_ in batch:
                del untried[id_]
                if id_ in free and limits[queue_of[id_]] >= 0:
                    found.add(id_)
                elif by_id[id_][0].strict:
                    limits[queue_of[id_]] = HALTED
                else:
                    limits[queue_of[id_]] += 1
        return found

    # What one queue has for this session.

    def _candidates(self, session_id: int, record: QueueRecord, credit: int) -> list[Candidate]:
        if not record.has_rules:
            credit *= 4  # to step over rows that others have locked meanwhile
        situation = self._situation(session_id, record)
        found = award(self._walk(session_id, record, credit, situation), session_id, credit, situation)
        self._left_some = self._left_some or found.left
        return found.chosen

    def _situation(self, session_id: int, record: QueueRecord) -> Situation:
        """Read what the queue's rules must know of the other sessions."""
        return Situation(
            slots=record.seats,
            in_slots=frozenset() if record.seats is None else self._seated(record),
            in_flight=None if record.max_in_flight is None else record.max_in_flight - self._in_flight(record),
            grouped=record.has_groups,
            waiting=self._busy_groups(record) if record.has_groups else frozenset(),
            rivals=self._rivals(session_id, record) if record.priorities_differ else (),
        )

    def _seated(self, record: QueueRecord) -> frozenset[int]:
        return frozenset(row[0] for row in self._rows("seats", queue_id=record.id))

    def _in_flight(self, record: QueueRecord) -> int:
        return int(self._rows("in_flight", queue_id=record.id)[0][0])

    def _busy_groups(self, record: QueueRecord) -> frozenset[str]:
        return frozenset(row[0] for row in self._rows("busy_groups", queue_id=record.id))

    def _rivals(self, session_id: int, record: QueueRecord) -> list[Rival]:
        rows = self._rows("queue_consumers", queue=record.name, queue_id=record.id, session=session_id)
        return rivals_of(session_id, [Subscription(*row) for row in rows])

    def _walk(
        self, session_id: int, record: QueueRecord, credit: int, situation: Situation
    ) -> Iterator[Candidate]:
        """Yield the ready messages in order, page by page, without those that groups keep from the session."""
        given: dict[str, Any] = {"queue_id": record.id}
        limit = min(PAGE, credit + sum(rival.credit for rival in situation.rivals))
        if record.has_groups:
            limit = PAGE
            given |= {"session": session_id, "rivals": bool(situation.rivals)}
        seen = set(situation.waiting)
        after: Candidate | None = None
        while True:
            if record.has_groups:
                given["busy"] = sorted(seen)
            name = "walk_groups" if record.has_groups else "walk"
            page = [Candidate(*row) for row in self._rows(name, **given, limit=limit, **_beyond(after))]
            yield from page
            if len(page) < limit:
                return
            after = page[-1]
            seen.update(item.group for item in page if item.group is not None)

    def _take_seats(self, session_id: int, chosen: Iterable[tuple[QueueRecord, Candidate]]) -> None:
        """Note what belongs to the session from now on: seats in queues, and groups that stay with it."""
        owned: set[tuple[int, str | None]] = set()
        for record, item in chosen:
            if record.seats is not None:
                owned.add((record.id, None))
            if record.grouping == "assigned" and item.group is not None:
                owned.add((record.id, item.group))
        for queue_id, group in owned:
            self._rows("own", queue_id=queue_id, group=group, session=session_id)


def _beyond(after: Candidate | None) -> dict[str, Any]:
    return {"after": after and after.id, "level": after and after.level, "place": after and after.place}
