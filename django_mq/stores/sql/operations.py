"""Operations on messages and queues by operators."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from django_mq.engine.decisions.dead_letters import REJECTED, destination
from django_mq.engine.states import QUEUE_DELETED
from django_mq.stores import errors, queue_records
from django_mq.stores.records import failed_attempt
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import CANCELLED, PURGED, first_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from django_mq.stores.records import Failure

#: Messages removed by one statement of a purge, so that no transaction grows with the backlog.
PURGE_CHUNK = 1000
#: Seconds that the deletion of a queue waits for open transactions that wrote messages. No publisher can write
#: meanwhile; afterwards StoreUnavailable says to try again.
DELETION_WAIT_SECONDS = 2
#: No id is larger.
LAST_ID = 2**63 - 1


class Operations(Part):
    def delete_queue(self, name: str, *, force: bool = False) -> int:
        with self.database.transaction():
            self._refuse_links(name)
            removed = self._empty(name) if force else 0
            self._wait_for_publishers()
            self._refuse_messages(name, forced=force)
            self._drop(name)
        return removed

    def _refuse_links(self, name: str) -> None:
        """Lock a queue's row. Raises QueueInUse if other queues name it."""
        use = self.rows("queue_use", queue=name)
        if not use:
            raise errors.no_such_queue(name)
        if use[0][0]:
            raise errors.linked(name, use[0][0])

    def _refuse_messages(self, name: str, *, forced: bool) -> None:
        if self.rows("count_up_to", queue=name, limit=1, dead=True)[0][0]:
            raise errors.not_empty(name, claimed=forced)

    def _drop(self, name: str) -> None:
        for statement in ("drop_claim_lock", "drop_bindings", "drop_duplicates", "drop_queue"):
            self.rows(statement, queue=name)
        queue_records.drop(self.store.alias, name)

    def end_queue(self, name: str, *, force: bool) -> dict[str, int]:
        """Delete an unused queue whose row is locked, and wait for no one; return how many messages it held.

        What is still being published into it goes where its messages go; without ``force`` the queue stays then.
        """
        return {name: self.delete_queue(name, force=force)}

    def _wait_for_publishers(self) -> None:
        """Wait for open publishes, and keep others out until this transaction ends."""

    def _empty(self, name: str) -> int:
        queue = self.store.queues.queue(name)
        if queue is None or destination(queue, REJECTED) is None:
            return self._purge_within(name, LAST_ID)
        sent, ids = 0, self._unheld(name, LAST_ID)
        while ids:
            self.store.messages.bury(ids, QUEUE_DELETED)
            sent += len(self.store.moves.send_dead(ids, is_last=True).left)
            left = self._unheld(name, LAST_ID)
            if not set(ids).isdisjoint(left):
                raise errors.not_taken(name, queue.dead_letter_queue or queue.dead_letter_exchange)
            ids = left
        return sent

    def purge(self, name: str, *, dead: bool = True) -> int:
        self.store.queues.existing(name)
        newest = self.rows("newest_message")[0][0]
        return 0 if newest is None else self._purge_within(name, newest, dead=dead)

    def _purge_within(self, name: str, newest: int, *, dead: bool = True) -> int:
        """Remove messages in chunks, each in a transaction of its own unless the caller has one.

        Messages newer than an id stay, or the purge would not end while new ones arrive.
        """
        removed, locked = 0, set[int]()
        while ids := sorted({*self._unheld(name, newest, dead=dead, limit=PURGE_CHUNK + len(locked))} - locked):
            with nullcontext() if self.database.private else self.database.transaction():
                gone = self.store.messages.remove(ids, PURGED)
            removed += len(gone)
            locked |= {*ids}.difference(gone)
        return removed

    def _unheld(self, name: str, newest: int, *, dead: bool = True, limit: int = PURGE_CHUNK) -> list[int]:
        return first_of(self.rows("find_unheld", queue=name, newest=newest, dead=dead, limit=limit))

    def cancel(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            return len(self.store.messages.remove(ids, CANCELLED))

    def release_held(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            released = len(self.rows("release_held", ids=list(ids)))
            self.store.messages.drop_replaced(ids)
        return released

    def deliver_now(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            names = [row[0] for row in self.rows("value_queues", ids=list(ids))]
            self.store.capacity.of(names)  # before any message is locked, as publishers do
            delivered = len(self.rows("deliver_now", ids=list(ids)))
            for name in names:
                self.store.last_values.let_arrive(name)
        return delivered

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        return len(self.rows("reschedule", ids=list(ids), deliver_at=deliver_at))

    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        with self.database.transaction():
            return self.store.messages.prioritise_rows(ids, priority)

    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        if value is None:
            return len(self.rows("remove_header", ids=list(ids), name=name))
        return len(self.rows("set_header", ids=list(ids), name=name, value=value))

    def record_attempt(self, failure: Failure, **about: Any) -> None:
        self.rows("record_attempt", **failed_attempt(failure, **about))
