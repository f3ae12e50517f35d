"""Steering: what an operator does to messages and queues."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.last_value import BY_LATER_VALUE
from django_mq.engine.verdict import Verdict
from django_mq.stores.refusals import no_such_queue
from django_mq.stores.sql.runner import Runner
from django_mq.stores.values import storable, told, uuid_of
from django_mq.stores.waiting import WaitingMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from django_mq.stores.records import Failure


#: Outcome numbers of the history table; models.History.Outcome names them.
ACCEPTED, EXPIRED, CANCELLED, PURGED, REPLACED = 1, 2, 3, 4, 5
#: Verdicts that end a message, and what the history calls them.
FINISHING = ((Verdict.ACCEPT, ACCEPTED), (Verdict.EXPIRE, EXPIRED), (Verdict.CANCEL, CANCELLED))
REPLACED_MEANWHILE = {"outcome": REPLACED, "reason": BY_LATER_VALUE}
#: Messages removed by one statement of a purge, so that no transaction grows with the backlog.
PURGE_CHUNK = 1000


class Steering(Runner):
    """Purge, cancel, release, move, reorder, retry, pause."""

    def _remove(self, ids: Sequence[int], outcome: int, *, reason: str | None = None) -> int:
        """Remove unheld messages, all or those that were marked with a reason."""
        return len(self._rows("remove", ids=list(ids), outcome=outcome, reason=reason))

    def _drop_replaced(self, ids: Sequence[int]) -> list[int]:
        """Remove those that came back although a later value has replaced them; return their ids."""
        return [row[0] for row in self._rows("remove", ids=list(ids), **REPLACED_MEANWHILE)] if ids else []

    def _move_dead(self, ids: Sequence[int], *, expired: bool = False) -> int:
        """Send what is dead, or has expired, where its queue says; return how many went."""
        raise NotImplementedError

    def _send_expired(self, ids: Sequence[int]) -> int:
        """Send expired messages that were set aside to their expiry queue; what cannot go there is over."""
        return self._move_dead(ids, expired=True) + self._remove(ids, EXPIRED)

    def purge(self, name: str) -> int:
        if self.queue(name) is None:
            raise no_such_queue(name)
        newest = self._rows("newest_message")[0][0]
        return 0 if newest is None else self._purge_within(name, newest)

    def _purge_within(self, name: str, newest: int) -> int:
        """Remove chunk by chunk, each in a transaction of its own unless the caller holds one.

        Nothing newer than an id: where messages keep coming it would not end, and remove what nobody meant.
        """
        removed = 0
        chunk = {"queue": name, "newest": newest, "limit": PURGE_CHUNK}
        while ids := [row[0] for row in self._rows("find_unheld", **chunk)]:
            with self._nested():
                gone = self._remove(ids, PURGED)
            removed += gone
            if not gone:
                break  # others hold locks on what is left
        return removed

    @contextmanager
    def _nested(self) -> Iterator[None]:
        if self.private:
            yield
        else:
            with self._transaction():
                yield

    def cancel(self, ids: Sequence[int]) -> int:
        with self._transaction():
            return self._remove(ids, CANCELLED)

    def correlated(self, ids: Sequence[str]) -> list[WaitingMessage]:
        hexes = [made.hex for given in ids if (made := uuid_of(given)) is not None]
        found = self._rows("find_correlated", correlation_ids=list(ids)) if ids else []
        found += self._rows("find_identified", message_ids=hexes) if hexes else []
        by_id = {id_: (queue, UUID(str(made)), *rest) for id_, queue, made, *rest in found}
        return [WaitingMessage(id_, *rest) for id_, rest in by_id.items()]

    def release_held(self, ids: Sequence[int]) -> int:
        with self._transaction():
            released = len(self._rows("release_held", ids=list(ids)))
            self._drop_replaced(ids)
        return released

    def deliver_now(self, ids: Sequence[int]) -> int:
        return len(self._rows("deliver_now", ids=list(ids)))

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        return len(self._rows("reschedule", ids=list(ids), deliver_at=deliver_at))

    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        with self._transaction():
            return len(self._rows("prioritise", ids=list(ids), priority=priority))

    def retry_dead(self, ids: Sequence[int]) -> int:
        return len(self._rows("retry_dead", ids=list(ids)))

    def set_paused(self, name: str, *, paused: bool, reason: str = "", seconds: float | None = None) -> None:
        if not self._rows("set_paused", queue=name, paused=paused, reason=storable(reason, 200), seconds=seconds):
            raise no_such_queue(name)

    def record_attempt(
        self,
        failure: Failure,
        *,
        queue_name: str,
        number: int,
        worker: str,
        message_id: UUID | None = None,
        correlation_id: str | None = None,
        type: str = "",  # noqa: A002 - as the field
    ) -> None:
        self._rows(
            "record_attempt",
            message_id=message_id,
            correlation_id=correlation_id,
            queue_name=storable(queue_name, 200),
            type=storable(type, 255),
            number=number,
            worker=storable(worker, 255),
            error=storable(failure.error, 255),
            detail=told(failure.detail),
            traceback=told(failure.traceback),
        )
