"""The keys of unique messages in memory. A window that a rolled-back transaction has begun goes on, and
what it has replaced stays so.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from functools import partial
from typing import TYPE_CHECKING

from django_mq.engine.decisions.expiry import is_expired
from django_mq.engine.decisions.unique import First, Standing, ends_at, is_free, standing_of
from django_mq.inprocess.memory.part import Part
from django_mq.inprocess.memory.row import row_of
from django_mq.stores.subjects import unique_keys as subjects
from django_mq.stores.subjects.unique_keys import Holder, first_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
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
    #: The keys that the call has changed, as they were before, and what it does to other messages.
    _before: list[tuple[str, First | None]] = field(default_factory=list)
    _changes: list[Callable[[], object]] = field(default_factory=list)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Give the keys back if the call fails."""
        self._before, self._changes = [], []
        try:
            yield
        except BaseException:
            for digest, first in reversed(self._before):
                self._set(digest, first)
            raise

    def change_messages(self) -> None:
        """Change the messages that those of the call replace."""
        for change in self._changes:
            change()

    def _set(self, digest: str, first: First | None) -> None:
        self._before.append((digest, self.broker.unique_keys.pop(digest, None)))
        if first is not None:
            self.broker.unique_keys[digest] = first

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
        entering = [] if unit is None else [unit.entering(queue.inner) for queue in self.broker.queues.values()]
        coming = [
            Holder(0, Standing.WAITING) for mine in entering if any(each.id == str(message_id) for each in mine)
        ]
        running = [Holder(0, Standing.BEGUN)] if self._runs(message_id) else []
        now = self.broker.now().timestamp()
        return first_holder([*(_holder_of(row, now) for row in self._found(message_id)), *coming, *running])

    def _runs(self, message_id: UUID) -> bool:
        """Whether the run of a message goes on that is gone."""
        return any(run.ended.message_id == message_id for run in self.broker.runs.values())

    def _found(self, message_id: UUID) -> Iterator[LiveMessage]:
        for queue in self.broker.queues.values():
            if (entry := queue.inner.contents.find(str(message_id))) is not None:
                yield row_of(entry)

    def give(self, message: NewMessage, claim: UniqueClaim) -> None:
        now, rule = self.broker.now().timestamp(), claim.rule
        end = ends_at(rule, now)
        self._set(claim.digest, First(message.message_id, claim.owner, rule.until, now, end))

    def go_on(self, message: NewMessage, claim: UniqueClaim) -> None:
        first = self.broker.unique_keys[claim.digest]
        self._set(claim.digest, first._replace(message_id=message.message_id))

    def take_back(self, messages: Sequence[NewMessage]) -> None:
        for message in messages:
            first = self.broker.unique_keys.get(message.unique.digest) if message.unique is not None else None
            if message.unique is not None and first is not None and first.message_id == message.message_id:
                self._set(message.unique.digest, None)

    def replace_body(self, id_: int, message: NewMessage) -> None:
        self._changes.extend(partial(row.replace_body, message) for row in self.broker.found([id_]))

    def reschedule(self, id_: int, deliver_at: datetime) -> None:
        self._changes.append(partial(self.operations.reschedule, [id_], deliver_at))

    def prioritise(self, id_: int, priority: int) -> None:
        self._changes.append(partial(self.operations.prioritise, [id_], priority))

    def ahead(self, seconds: float) -> datetime:
        return self.broker.now().astimezone(UTC) + timedelta(seconds=seconds)

    def free(self, digest: str) -> bool:
        with self.broker.locked():
            return self.broker.unique_keys.pop(digest, None) is not None

    def prune(self, limit: int) -> int:
        with self.broker.locked():
            now, keys = self.broker.now().timestamp(), self.broker.unique_keys
            stale = [digest for digest, first in keys.items() if self._is_stale(first, now)][:limit]
            for digest in stale:
                del keys[digest]
        return len(stale)

    def _is_stale(self, first: First, now: float) -> bool:
        is_there = any(self._found(first.message_id)) or self._runs(first.message_id)
        if is_there and first.ends_at is None:
            return False
        return is_free(first.until, first.ends_at, Standing.GONE, now)


def _holder_of(row: LiveMessage, now: float) -> Holder:
    has_run, has_expired = row.entry.redelivered or row.attempts > 0, is_expired(row.entry, now)
    return Holder(row.id, standing_of(row.state, row.entry.cause, has_run=has_run, has_expired=has_expired))
