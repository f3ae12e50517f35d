"""Claims from queues with rules: who else is there, and what is left for this session.

A claim from such a queue waits for its turn, so that what it reads of others is true until it
commits. It reads the ready messages that this session may have, in order; those of several
queues are merged; then they are locked and leased. Queues without rules never come here, unless
a claim names one beside a queue with rules.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.stores.sql.merging import merged
from django_mq.stores.sql.remembering import Remembering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from django_mq.stores.records import ClaimRequest, QueueRecord

#: When to look again for messages that were left to a better consumer, in seconds: it may not have come for them.
LEFT_SECONDS = 0.5
#: Messages read at a time in search of groups that are free.
PAGE = 200


class Candidate(NamedTuple):
    """A ready message that this session may have."""

    id: int
    priority: int
    suspect: bool
    group: str | None
    level: int
    place: int


class Ruling(Remembering):
    """Choose what a session may have of queues with rules."""

    #: Whether the last claim left messages to consumers of higher priority.
    _left_some: bool = False

    def _choose(self, session_id: int, request: ClaimRequest) -> list[tuple[QueueRecord, Candidate]]:
        """Return what the session may have, best first, locked up to the credit. Waits for the queues' turns."""
        self._left_some = False
        # In one order for all, or two claimers could wait for each other.
        records = {name: self._in_turn(name) for name in sorted(set(request.queues))}
        heads = []
        for name in request.queues:
            record = records[name]
            if record is not None and not record.paused:
                heads.append([(record, item) for item in self._candidates(session_id, record, request.credit)])
        by_id = {item.id: (record, item) for head in heads for record, item in head}
        ranked = merged([[(item.id, item.priority) for _, item in head] for head in heads], listed=request.listed)
        return self._obtained([by_id[id_] for id_ in ranked], request.credit)

    def _in_turn(self, name: str) -> QueueRecord | None:
        if self._is_ruled(name):
            self._take_turn(name)
        # Read once it is our turn: it may have changed while we waited.
        return self.queue(name)

    def _take_turn(self, name: str) -> None:
        """Wait until nobody else claims from the queue, and keep others out until the transaction ends."""
        self._rows("take_turn", queue=name)

    def _obtained(
        self, ranked: Sequence[tuple[QueueRecord, Candidate]], credit: int
    ) -> list[tuple[QueueRecord, Candidate]]:
        """Lock the best, as many as asked for; a strict queue ends at one that cannot be had now."""
        rest = iter(ranked)
        found: list[tuple[QueueRecord, Candidate]] = []
        halted: set[str] = set()
        while len(found) < credit and (batch := list(islice(rest, credit - len(found)))):
            free = {row[0] for row in self._rows("lock_chosen", ids=[item.id for _, item in batch])}
            for record, item in batch:
                if item.id not in free and record.strict:
                    halted.add(record.name)
                if item.id in free and record.name not in halted:
                    found.append((record, item))
        return found

    # What one queue has for this session.

    def _candidates(self, session_id: int, record: QueueRecord, credit: int) -> list[Candidate]:
        room = self._room(session_id, record, credit)
        if room <= 0:
            return []
        if not record.has_rules:
            room *= 4  # to step over rows that others have locked meanwhile
        left = self._left_to_better(session_id, record) if record.priorities_differ else 0
        found = self._free_groups(session_id, record) if record.has_groups else self._walk(record, room + left)
        if list(islice(found, left)):
            self._left_some = True
        return list(islice(found, room))

    def _room(self, session_id: int, record: QueueRecord, credit: int) -> int:
        """How much the session may claim of the queue, leaving aside what is ready."""
        if record.seats is not None:
            seated = {row[0] for row in self._rows("seats", queue_id=record.id)}
            if session_id not in seated and len(seated) >= record.seats:
                return 0
        if record.max_in_flight is None:
            return credit
        held: int = self._rows("in_flight", queue_id=record.id)[0][0]
        return min(credit, record.max_in_flight - held)

    def _left_to_better(self, session_id: int, record: QueueRecord) -> int:
        """How many of the first messages consumers of higher priority elsewhere have credit for."""
        rows = self._rows("better_consumers", queue=record.name, queue_id=record.id, session=session_id)
        return sum(max(0, int(credit) - int(max(used, held))) for credit, used, held in rows)

    def _walk(self, record: QueueRecord, limit: int) -> Iterator[Candidate]:
        rows = self._rows("walk", queue_id=record.id, limit=limit, **_beyond(None))
        return (Candidate(*row) for row in rows)

    def _free_groups(self, session_id: int, record: QueueRecord) -> Iterator[Candidate]:
        """Yield the messages of no group, and the first of each group that is free or the session's own."""
        busy = {row[0] for row in self._rows("busy_groups", queue_id=record.id)}
        after: Candidate | None = None
        while True:
            given = {"queue_id": record.id, "session": session_id, "busy": sorted(busy), "limit": PAGE}
            page = [Candidate(*row) for row in self._rows("walk_groups", **given, **_beyond(after))]
            for item in page:
                if item.group not in busy:
                    yield item
                if item.group is not None:
                    busy.add(item.group)
            if len(page) < PAGE:
                return
            after = page[-1]

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
