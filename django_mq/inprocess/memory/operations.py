"""Browse messages, change them for operators, and do maintenance, in memory."""

from __future__ import annotations

from datetime import timedelta
from heapq import nsmallest
from itertools import compress, islice
from typing import TYPE_CHECKING, TypeVar

from django_mq import conf
from django_mq.engine.decisions.claim import is_paused
from django_mq.engine.decisions.decline import BY_ALL, audience_of, is_settled, is_unwanted
from django_mq.engine.decisions.selection import may_want
from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.states import CLAIMED, DEAD, READY, SCHEDULED, Cause, Fate, is_retrying
from django_mq.inprocess.entries.timeline import expiry_order
from django_mq.inprocess.memory.broker import Part
from django_mq.inprocess.memory.row import EndedClaim, entry_of, row_of
from django_mq.inprocess.parts.control import travelling
from django_mq.stores import errors
from django_mq.stores.records import WORKER_LOST, Counts, Reaped, all_are_read
from django_mq.stores.values import later, uuid_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from types import SimpleNamespace

    from django_mq.inprocess.memory.broker import BrokerQueue
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.inprocess.memory.sessions import MemorySession
    from django_mq.stores.records import Browsed

Item = TypeVar("Item")

#: How long the history of a deleted queue is kept.
ORPHANED = timedelta(days=7)
#: How long a failed attempt is kept after its message has left its queue.
ATTEMPTS_KEPT = timedelta(days=30)


class Browser(Part):
    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        queues = self.broker.queues
        wanted = sorted(queues) if names is None else sorted(queues.keys() & set(names))
        return {name: self._counts_of(queues[name], limit) for name in wanted}

    def _counts_of(self, queue: BrokerQueue, limit: int) -> Counts:
        in_state = queue.engine.counts()
        scheduled, ready, claimed, dead = (
            min(limit, in_state[state]) for state in (SCHEDULED, READY, CLAIMED, DEAD)
        )
        now = self.broker.now().timestamp()
        due = sum(entry.due_at is not None and entry.due_at <= now for entry in queue.engine.scheduled())
        retrying = sum(is_retrying(entry.state, entry.attempts) for entry in queue.engine.scheduled())
        age, is_exact = self._oldest_ready_seconds(queue), all_are_read(ready, limit)
        return Counts(scheduled, ready, claimed, dead, age, min(limit, due), min(limit, retrying), is_exact)

    def _oldest_ready_seconds(self, queue: BrokerQueue) -> float | None:
        """Return how long the oldest message that is ready, or due and not yet promoted, has waited."""
        since = [row.ready_at.timestamp() for row in queue.rows if row.entry.state is READY]
        now, due = self.broker.now().timestamp(), queue.engine.due.next_due()
        if due is not None and due <= now:
            since.append(due)
        return now - min(since) if since else None

    def occupied(self) -> list[int]:
        return [queue.number for queue in self.broker.queues.values() if queue.engine.statistics.depth]

    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        queue = self.broker.queues.get(name)
        if queue is None:
            return []
        position = queue.engine.contents.dispatch.ready.position
        beyond = None if after is None else position(entry_of(after))
        entries = (row.entry for row in queue.rows if row.state in states)
        chosen = (entry for entry in entries if beyond is None or position(entry) > beyond)
        return [row_of(entry).browsed() for entry in nsmallest(limit, chosen, key=position)]

    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        queue = self.broker.queues.get(name)
        rows = [] if queue is None else [row for row in queue.rows if row.id > after]
        return [row.browsed() for row in nsmallest(limit, rows, key=lambda row: row.id)]

    def last_arrival(self) -> int:
        return max(self.broker.rows, default=0)

    def correlated(self, ids: Sequence[str]) -> list[Browsed]:
        wanted = {*ids, *(made for given in ids if (made := uuid_of(given)) is not None)}
        waiting = [row for row in self.broker.rows.values() if row.entry.state in (SCHEDULED, READY)]
        return [
            row.browsed()
            for row in waiting
            if row.message.correlation_id in wanted or row.message.message_id in wanted
        ]


class Operations(Part):
    def cancel(self, ids: Sequence[int]) -> int:
        unclaimed = [row for row in self.broker.found(ids) if row.entry.state is not CLAIMED]
        return sum([row.queue.engine.control.discard(row.entry, Cause.CANCELLED) for row in unclaimed])

    def release_held(self, ids: Sequence[int]) -> int:
        held = [row for row in self.broker.found(ids) if row.held]
        for row in held:
            row.give_back(self.broker.now())
        return len(held)

    def move(self, ids: Sequence[int], target: str) -> int:
        queue = self.broker.existing(target)
        if queue.engine.closed:
            raise errors.closed(target)
        unheld = [row for row in self.broker.found(ids) if not row.held]
        coming = [
            row for row in _in_order(unheld) if queue.engine.contents.find(str(row.message.message_id)) is None
        ]
        moved = self._moved(coming, queue)
        if moved:
            queue.engine.arrivals.entered(moved[-1].entry)
        elif coming and queue.settings.is_limited:
            raise errors.full(target)
        return len(moved)

    def _moved(self, rows: Sequence[LiveMessage], queue: BrokerQueue) -> list[LiveMessage]:
        now, moved = self.broker.now().timestamp(), []
        fitting = queue.engine.arrivals.fitting([travelling(row.entry) for row in rows], now)
        for row in compress(rows, fitting):
            is_scheduled = row.entry.state is SCHEDULED
            row.queue.engine.move(row.entry, queue.engine, now, more=True)
            row.deliver_at, row.released_at = row.deliver_at if is_scheduled else None, self.broker.now()
            moved.append(row)
        return moved

    def deliver_now(self, ids: Sequence[int]) -> int:
        scheduled = [row for row in self._found_anew(ids) if row.entry.state is SCHEDULED]
        for row in scheduled:
            row.deliver_at = self.broker.now()
        for row in scheduled:  # a value replaces others, which were due before
            row.queue.engine.control.deliver_now(row.entry)
        return len(scheduled)

    def _found_anew(self, ids: Sequence[int]) -> list[LiveMessage]:
        """Return the messages in order of arrival, after the last values that are due in their queues."""
        found = sorted(self.broker.found(ids), key=lambda row: row.id)
        for row in found:
            row.queue.engine.due.let_values_arrive(self.broker.now().timestamp())
        return found

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        due_at, now = deliver_at.timestamp(), self.broker.now().timestamp()
        moved = [
            row for row in self.broker.found(ids) if row.queue.engine.control.reschedule(row.entry, due_at, now)
        ]
        for row in moved:
            row.deliver_at = deliver_at
        return len(moved)

    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        now, rows = self.broker.now().timestamp(), _in_order(self.broker.found(ids))
        changed = [row.queue.engine.control.change_priority(row.entry, priority, now) for row in rows]
        return sum(entry is not None for entry in changed)

    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        unheld = [row for row in self.broker.found(ids) if not row.held]
        for row in unheld:
            row.set_header(name, value)
        return len(unheld)

    def redrive_dead(self, ids: Sequence[int]) -> int:
        return sum([self._redrive(row) for row in self._found_anew(ids)])

    def _redrive(self, row: LiveMessage) -> bool:
        # Before: a newer value replaces a redriven one at once, and the history has the time.
        before, row.released_at = row.released_at, self.broker.now()
        if row.queue.engine.control.redrive(row.entry):
            row.ended = None
            return True
        row.released_at = before
        return False


class Maintenance(Part):
    def promote(self, limit: int = 1000) -> int:
        now = self.broker.now()
        for queue in self.broker.queues.values():
            queue.end_pause(now)
        return sum(len(queue.engine.promote(now.timestamp(), limit)) for queue in self.broker.queues.values())

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        now = self.broker.now()
        sessions = [session for session in self.broker.sessions.values() if session.number != spare]
        reaped = [self._reap(session) for session in sessions if session.deadline < now]
        self.store.queues.send_dead(row for _, dead in reaped for row in dead)
        gone = [session for session in sessions if session.deadline < now]
        left = [self.broker.note_departure(session) for session in gone]
        if any(left):
            self.store.queues.delete_unused()
        return [each for each, _ in reaped]

    def _reap(self, session: MemorySession) -> tuple[Reaped, list[LiveMessage]]:
        """Remove a session and give its messages back. Return a report, and the new dead letters."""
        for row in session.held():
            if row.entry.suspect:
                self.broker.record_failure(row, WORKER_LOST, session.info.name)
            row.ended = EndedClaim(session.number, row.entry.claim_number, row.entry.suspect, session)
            row.let_go()
            row.released_at = self.broker.now()
        lost = session.lose(self.broker.now().timestamp())
        dead = [row for row, fate in lost if fate is Fate.DEAD]
        del self.broker.sessions[session.number]
        released = len(lost) - len(dead)
        return Reaped(session_id=session.number, name=session.info.name, released=released, dead=len(dead)), dead

    def expire(self, limit: int = 1000) -> int:
        now = self.broker.now().timestamp()
        engines = [queue.engine for queue in self.broker.queues.values()]
        for engine in engines:
            engine.due.let_values_arrive(now)  # a value that was due before its end has replaced others
        overdue = [(engine, entry) for engine in engines for entry in engine.due.overdue(now, limit)]
        overdue = nsmallest(limit, overdue, key=lambda pair: expiry_order(pair[1]))
        for engine, entry in overdue:
            if row_of(entry).leaves_expired and engine.control.bury(entry, now, BY_EXPIRY):
                row_of(entry).let_go()  # a stealable consumer may have held it
            else:
                engine.control.discard(entry, Cause.EXPIRED)
        self.send_expired(row_of(entry) for _, entry in overdue if entry.state is DEAD)
        return len(overdue)

    def send_expired(self, rows: Iterable[LiveMessage]) -> None:
        """Send expired messages, which are dead, where their queues say; remove those that may not stay."""
        expired = list(rows)
        done = self.store.queues.send_dead(expired, BY_EXPIRY)
        for row in expired:
            if row.id not in done:
                row.queue.engine.control.discard(row.entry, Cause.EXPIRED)

    def bury_unwanted(self) -> int:
        now, grace_seconds = self.broker.now(), conf.load().DECLINE_GRACE_SECONDS
        living = [session for session in self.broker.sessions.values() if session.deadline >= now]
        unwanted: list[LiveMessage] = []
        before, self.broker.audiences = self.broker.audiences, {}
        for name, queue in self.broker.queues.items():
            declined = [row_of(entry) for entry in queue.engine.browse() if entry.declined_by]
            if not declined or is_paused(queue.engine.paused, queue.paused_until, now):
                continue
            consumers = {session.number: session.selectors(name) for session in living if session.consumes(name)}
            audience = audience_of(before.get(name), frozenset(consumers), now.timestamp())
            self.broker.audiences[name] = audience
            if is_settled(audience, now.timestamp(), grace_seconds):
                unwanted += [row for row in declined if self._is_unwanted(row, consumers, grace_seconds)]
        for row in unwanted:
            row.entry.declined_by = None
            row.queue.engine.control.bury(row.entry, now.timestamp(), BY_ALL)
        self.store.queues.send_dead(unwanted)
        return len(unwanted)

    def _is_unwanted(self, row: LiveMessage, consumers: Mapping[int, set[str]], grace_seconds: float) -> bool:
        entry, sessions, group = row.entry, row.queue.sessions, row.message.group_key
        declined_by = {sessions[consumer] for consumer in entry.declined_by or () if consumer in sessions}
        owner = None if group is None else row.queue.owner_of(group)
        is_old = row.declined_at is not None and later(row.declined_at, grace_seconds) <= self.broker.now()
        wanting = [number for number, texts in consumers.items() if may_want(texts, entry.message)]
        return is_old and is_unwanted(declined_by, wanting, owner)

    def trim(self) -> int:
        return sum(queue.engine.control.trim() for queue in self.broker.queues.values())

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        now = self.broker.now()
        kept = (timedelta(days=queue.settings.history_days) for queue in self.broker.queues.values())
        # The shortest time for which a queue keeps history.
        shortest = timedelta(0) if whole else min((time for time in kept if time), default=ORPHANED)
        live = {row.message.message_id for row in self.broker.rows.values()}
        history = _drop(self.broker.history, lambda item: self._is_past(item, now, shortest), limit)
        attempts = _drop(
            self.broker.attempts,
            lambda item: item.message_id not in live and now - item.failed_at > ATTEMPTS_KEPT,
            limit,
        )
        dedup_ids = sum(queue.engine.duplicate_ids.prune(now.timestamp()) for queue in self.broker.queues.values())
        return history + attempts + dedup_ids + self._prune_volatile(now)

    def _prune_volatile(self, now: datetime) -> int:
        bindings, messages = self.broker.volatile_bindings, self.broker.volatile_messages
        self.broker.volatile_bindings = living = {
            key: (kind, end) for key, (kind, end) in bindings.items() if end >= now
        }
        self.broker.volatile_messages = kept = [item for item in messages if item[2] >= now]
        return len(bindings) - len(living) + len(messages) - len(kept)

    def _is_past(self, item: SimpleNamespace, now: datetime, shortest: timedelta) -> bool:
        queue = self.broker.queues.get(item.queue_name)
        kept = ORPHANED if queue is None else timedelta(days=queue.settings.history_days)
        return bool(now - item.finished_at > max(kept, min(shortest, ORPHANED)))


def _in_order(rows: Iterable[LiveMessage]) -> list[LiveMessage]:
    return sorted(rows, key=lambda row: row.entry.order)


def _drop(remembered: deque[Item], is_over: Callable[[Item], bool], limit: int) -> int:
    over = list(islice((item for item in remembered if is_over(item)), limit))
    for item in over:
        remembered.remove(item)
    return len(over)
