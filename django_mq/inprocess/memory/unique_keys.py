"""The keys of unique messages in memory. A window that a rolled-back transaction has begun goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from django_mq.engine.decisions.unique import First, Standing, ends_at, is_over, standing_of
from django_mq.inprocess.memory.part import Part
from django_mq.inprocess.memory.row import row_of
from django_mq.stores.subjects import unique_keys as subjects
from django_mq.stores.subjects.unique_keys import NO_HOLDER, Holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.inprocess.memory.broker import Transaction
    from django_mq.inprocess.memory.operations import Operations
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.stores.records import NewMessage


@dataclass(eq=False)
class UniqueKeys(Part, subjects.UniqueKeys):
    transaction: Transaction
    operations: Operations

    def insert(self, message: NewMessage, claim: UniqueClaim) -> bool:
        is_new = claim.digest not in self.broker.unique_keys
        if is_new:
            self.give(message, claim)
        return is_new

    def find(self, claim: UniqueClaim) -> tuple[First, Holder, float] | None:
        first = self.broker.unique_keys.get(claim.digest)
        if first is None:
            return None
        return first, self._holder(first.message_id), self.broker.now().timestamp()

    def _holder(self, message_id: UUID) -> Holder:
        unit = self.transaction.unit
        for row in self._found(message_id):
            has_run = row.entry.redelivered or row.attempts > 0
            return Holder(row.id, standing_of(row.state, row.entry.cause, has_run=has_run))
        queues = self.broker.queues.values() if unit is not None else ()
        for queue in queues:
            if any(each.id == str(message_id) for each in unit.entering(queue.inner)):  # type: ignore[union-attr]
                return Holder(0, Standing.WAITING)
        return NO_HOLDER

    def _found(self, message_id: UUID) -> Iterator[LiveMessage]:
        for queue in self.broker.queues.values():
            if (entry := queue.inner.contents.find(str(message_id))) is not None:
                yield row_of(entry)

    def give(self, message: NewMessage, claim: UniqueClaim) -> None:
        now, rule = self.broker.now().timestamp(), claim.rule
        end = ends_at(rule, now)
        self.broker.unique_keys[claim.digest] = First(message.message_id, claim.owner, rule.until, now, end)

    def go_on(self, message: NewMessage, claim: UniqueClaim) -> None:
        first = self.broker.unique_keys[claim.digest]
        self.broker.unique_keys[claim.digest] = first._replace(message_id=message.message_id)

    def take_back(self, messages: Sequence[NewMessage]) -> None:
        for message in messages:
            first = self.broker.unique_keys.get(message.unique.digest) if message.unique is not None else None
            if message.unique is not None and first is not None and first.message_id == message.message_id:
                del self.broker.unique_keys[message.unique.digest]

    def replace_body(self, id_: int, message: NewMessage) -> None:
        for row in self.broker.found([id_]):
            row.replace_body(message)

    def reschedule(self, id_: int, deliver_at: datetime) -> None:
        self.operations.reschedule([id_], deliver_at)

    def prioritise(self, id_: int, priority: int) -> None:
        self.operations.prioritise([id_], priority)

    def ahead(self, seconds: float) -> datetime:
        return self.broker.now().astimezone(UTC) + timedelta(seconds=seconds)

    def prune(self, limit: int) -> int:
        with self.broker.locked():
            now, keys = self.broker.now().timestamp(), self.broker.unique_keys
            stale = [digest for digest, first in keys.items() if self._is_stale(first, now)][:limit]
            for digest in stale:
                del keys[digest]
        return len(stale)

    def _is_stale(self, first: First, now: float) -> bool:
        if first.ends_at is not None:
            return is_over(first.ends_at, now)
        return not any(self._found(first.message_id))
