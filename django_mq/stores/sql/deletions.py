"""Deletions: purge a queue, and delete queues, by operators or when nothing uses them."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from django_mq.engine.decisions.dead_letters import REJECTED, destination
from django_mq.engine.states import QUEUE_DELETED
from django_mq.errors import QueueInUse, StoreUnavailable, UnknownQueue
from django_mq.stores import errors, queue_records
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.sql.messages import PURGED
from django_mq.stores.subjects import queues as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.moves import Moves
    from django_mq.stores.sql.queues import Queues

logger = logging.getLogger("django_mq.stores")

#: Messages removed by one statement of a purge, so that no transaction grows with the backlog.
PURGE_CHUNK = 1000
#: Seconds that the deletion of a queue waits for open transactions that wrote messages. No publisher can write
#: meanwhile; afterwards StoreUnavailable says to try again.
DELETION_WAIT_SECONDS = 2
#: No id is larger.
LAST_ID = 2**63 - 1
#: Seconds until the deletion of an unused queue is tried again, if messages in it or other queues prevent it.
RETRY_SECONDS = 60.0


@dataclass(eq=False)
class Deletions(Part, subjects.Deletions):
    queues: Queues
    messages: Messages
    moves: Moves
    #: Unused queues that could not be deleted, and when to try again.
    retry_at: dict[str, float] = field(init=False, default_factory=dict)

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
        for statement in ("drop_claim_lock", "drop_bindings", "drop_duplicates", "drop_fairness", "drop_queue"):
            self.rows(statement, queue=name)
        queue_records.drop(self.database.alias, name)

    def end_queue(self, name: str, *, force: bool) -> dict[str, int]:
        """Delete an unused queue whose row is locked, and wait for no one; return how many messages it held.

        What is still being published into it goes where its messages go; without ``force`` the queue stays then.
        """
        return {name: self.delete_queue(name, force=force)}

    def _wait_for_publishers(self) -> None:
        """Wait for open publishes, and keep others out until this transaction ends."""

    def _empty(self, name: str) -> int:
        queue = self.queues.find(name)
        if queue is None or destination(queue, REJECTED) is None:
            return self._purge_within(name, LAST_ID)
        sent, ids = 0, self._unheld(name, LAST_ID)
        while ids:
            self.messages.bury(ids, QUEUE_DELETED)
            sent += len(self.moves.send_dead(ids, is_last=True).left)
            left = self._unheld(name, LAST_ID)
            if not set(ids).isdisjoint(left):
                raise errors.not_taken(name, queue.dead_letter_queue or queue.dead_letter_exchange)
            ids = left
        return sent

    def purge(self, name: str, *, dead: bool = True) -> int:
        self.queues.existing(name)
        newest = self.rows("newest_message")[0][0]
        return 0 if newest is None else self._purge_within(name, newest, dead=dead)

    def _purge_within(self, name: str, newest: int, *, dead: bool = True) -> int:
        """Remove messages in chunks, each in a transaction of its own unless the caller has one.

        Messages newer than an id stay, or the purge would not end while new ones arrive.
        """
        removed, locked = 0, set[int]()
        while ids := sorted({*self._unheld(name, newest, dead=dead, limit=PURGE_CHUNK + len(locked))} - locked):
            with nullcontext() if self.database.private else self.database.transaction():
                gone = self.messages.remove(ids, PURGED)
            removed += len(gone)
            locked |= {*ids}.difference(gone)
        return removed

    def _unheld(self, name: str, newest: int, *, dead: bool = True, limit: int = PURGE_CHUNK) -> list[int]:
        return first_of(self.rows("find_unheld", queue=name, newest=newest, dead=dead, limit=limit))

    # Queues that end without an operator.

    def note_use(self, names: Sequence[str]) -> None:
        self.queues.note_use(names)

    def delete_unused(self) -> dict[str, int]:
        lives, now = self.queues.lives()
        consumed = self.queues.consumed() if lives else frozenset()
        if noted := [life.name for life in lives if life.is_to_be_noted(consumed, now)]:
            self.note_use(noted)
        over = [life.name for life in lives if life.is_over(consumed, now, partial(self._is_empty, life.name))]
        deleted: dict[str, int] = {}
        for name in over:
            if time.monotonic() < self.retry_at.get(name, 0.0):
                continue
            try:
                deleted |= self._delete_if_unused(name)
            except UnknownQueue:
                continue  # another worker was faster
            except (QueueInUse, StoreUnavailable) as error:
                self.retry_at[name] = time.monotonic() + RETRY_SECONDS
                logger.warning("Queue %r is not used any more, but cannot be deleted: %s", name, error)
        return deleted

    def _delete_if_unused(self, name: str) -> dict[str, int]:
        with self.database.transaction():
            if not self.rows("lock_if_free", queue=name):
                return {}  # a publisher, or another worker, has locked the row: the next round tries again
            lives, now = self.queues.lives([name])
            consumed = self.queues.consumed()
            if not all(life.is_over(consumed, now, partial(self._is_empty, name)) for life in lives):
                return {}  # a worker or a message has come meanwhile
            is_expired = all(life.is_expired(consumed, now) for life in lives)
            return self.end_queue(name, force=is_expired)

    def _is_empty(self, name: str) -> bool:
        return not self.rows("count_up_to", queue=name, dead=True, limit=1)[0][0]
