"""Dead letters, and other messages that leave their queue for another one."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress, groupby
from typing import TYPE_CHECKING

from django_mq.engine.decisions.dead_letters import MAXLEN, REJECTED
from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.states import DEAD, Cause
from django_mq.inprocess.memory.row import new_message
from django_mq.stores.dead_letters import planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.memory.broker import SharedBroker
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.stores.dead_letters import Copy, DeadLetter, Plan


class DeadLetters:
    """Send messages where their queues say, by the rules of the queues that they come to."""

    def __init__(self, broker: SharedBroker) -> None:
        self.broker = broker

    def send_dead(self, rows: Iterable[LiveMessage], reason: str = REJECTED) -> set[int]:
        """Send dead messages where their queues say; return the rows that left, and those that stay as dead."""
        now = self.broker.now()
        found = sorted({row.id: row for row in rows}.items())
        plan = self.planned([row.dead_letter(now) for _, row in found], reason)
        left: set[int] = set()
        for name, copies in sorted(plan.copies.items()):
            left |= self.copy(name, copies, now, evicts=reason != MAXLEN)
        for id_ in sorted(left):
            row = self.broker.rows[id_]
            row.queue.inner.control.discard(row.entry, Cause.EXPIRED if id_ in plan.expiring else Cause.DEAD)
        return left | plan.kept

    def planned(self, dead_letters: Sequence[DeadLetter], reason: str, *, is_last: bool = False) -> Plan:
        def message(letter: DeadLetter) -> Message:
            return self.broker.rows[letter.id].entry.message

        return planned(
            self.broker.record_named, self.broker.exchange_named, dead_letters, reason, message, is_last=is_last
        )

    def copy(self, name: str, copies: Sequence[Copy], now: datetime, *, evicts: bool) -> set[int]:
        """Write copies into a queue by its rules; return the rows of those that it took."""
        queue = self.broker.queues.get(name)
        if queue is None:
            return set()
        messages = [(copy.id, self._new(copy, name, now)) for copy in copies]
        causes = {copy.id: copy.cause for copy in copies}
        fitting = queue.inner.arrivals.fitting([message for _, message in messages], now.timestamp())
        taken: dict[int, Entry] = {}
        for id_, message in compress(messages, fitting):
            taken[id_] = queue.inner.arrivals.enter(message, now.timestamp())
            taken[id_].cause = causes[id_]
        if taken and evicts:
            queue.inner.arrivals.entered([*taken.values()][-1])
        return set(taken)

    def _new(self, copy: Copy, name: str, now: datetime) -> Message:
        message = replace(
            self.broker.rows[copy.id].message,
            queue_name=name,
            headers=copy.headers,
            properties=copy.properties,
            deliver_at=None,
            delay_seconds=None,
            expires_at=None,
            ttl_seconds=None,
            dedup_id=None,
        )
        return new_message(message, now, is_constrained=False)

    def send_dropped(self) -> None:
        """Send on what rings have made dead letters of: what they replaced first is sent first."""
        dropped, self.broker.dropped = self.broker.dropped, []
        for _, replaced in groupby(dropped, key=lambda row: (row.queue, row.entry.level)):
            here = [row for row in replaced if self.broker.rows.get(row.id) is row and row.entry.state is DEAD]
            if here:
                self.send_dead(here, MAXLEN)

    def send_expired(self, rows: Iterable[LiveMessage]) -> None:
        """Send expired messages, which are dead, where their queues say; remove those that may not stay."""
        expired = list(rows)
        done = self.send_dead(expired, BY_EXPIRY)
        for row in expired:
            if row.id not in done:
                row.queue.inner.control.discard(row.entry, Cause.EXPIRED)

    def welcome(self, plan: Plan, now: datetime) -> int:
        """Return how many messages would be taken by a queue."""
        taken: set[int] = set()
        for name, copies in plan.copies.items():
            if (target := self.broker.queues.get(name)) is not None:
                coming = [self._new(copy, name, now) for copy in copies]
                fitting = target.inner.arrivals.fitting(coming, now.timestamp())
                taken |= {copy.id for copy in compress(copies, fitting)}
        return len(taken)
