"""What a program holds of a batch: ``batch`` begins one, the others return one that exists."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq import conf
from django_mq.delivery.codecs import new_message_id
from django_mq.delivery.publisher import run_apart
from django_mq.delivery.validation import text
from django_mq.engine.decisions.batches import (
    BATCH_HEADER,
    LIVE,
    BatchCallback,
    BatchState,
    may_add,
)
from django_mq.errors import BatchClosed, BatchMisused, UnknownBatch, shown
from django_mq.seams.middleware import within
from django_mq.stores.clock import clock
from django_mq.stores.registry import database_store, shared_store

if TYPE_CHECKING:
    from contextvars import Token
    from datetime import datetime

    from django_mq.engine.decisions.batches import BatchCounts
    from django_mq.stores.base import Store

#: The most characters of the name of a batch.
NAME_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFigures:
    """How a batch stands. ``counts`` are exact, and ``done`` is the part that has ended, from 0 to 1."""

    id: UUID
    name: str
    state: BatchState
    counts: BatchCounts
    created_at: datetime
    ended_at: datetime | None
    #: Whether it was cancelled; it ends when the members have ended that were running.
    is_cancelled: bool

    @property
    def done(self) -> float:
        return self.counts.ended / self.counts.total if self.counts.total else float(self.state not in LIVE)


class BatchHandle:
    """A batch. As a context manager, it makes members of what is published inside, in this thread or coroutine.

    A batch that ``batch`` has made is written at the beginning of the block, and closed at its end. If the block
    raises an exception, the batch is cancelled. A batch that exists is neither closed nor cancelled.
    """

    def __init__(
        self,
        id_: UUID,
        alias: str,
        *,
        new: dict[str, Any] | None = None,
        open_: bool = False,
        member: bool = False,
    ) -> None:
        self.id = id_
        self._alias = alias
        # The columns of a batch that is not written yet.
        self._new = new
        self._is_mine = new is not None
        self._stays_open = open_
        self._is_member = member
        self._tokens: list[Token[Any]] = []
        # The outermost block of the transaction that has written the batch, if that is the caller's.
        self._unseen: Any = None

    def __repr__(self) -> str:
        return f"<batch {self.id}>"

    def __enter__(self) -> BatchHandle:
        self._begin()
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._leave()
        self._end(failed=kind is not None)

    async def __aenter__(self) -> BatchHandle:
        await run_apart(self._begin)
        self._enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._leave()
        await run_apart(lambda: self._end(failed=kind is not None))

    def _enter(self) -> None:
        from django_mq.batches.membership import Membership  # noqa: PLC0415 - models; an app may not be installed

        others = tuple(each for each in within.get() if not isinstance(each, Membership))
        self._tokens.append(within.set((*others, Membership(self.id, self._alias, self._check))))

    def _leave(self) -> None:
        within.reset(self._tokens.pop())

    def _begin(self) -> None:
        if self._is_mine and self._new is None:
            raise BatchMisused(
                f"The batch {self.id} was begun before; find_batch({str(self.id)!r}) adds to a batch that is open."
            )
        if self._new is not None:
            from django_mq.batches.models import MessageBatch  # noqa: PLC0415 - as above

            columns = self._new
            store: Any = shared_store(self._alias)
            blocks = store.database.connection.atomic_blocks
            # No other transaction closes or cancels a batch that it does not see.
            self._unseen = blocks[0] if blocks else None
            with store.database.transaction():
                MessageBatch.objects.using(self._alias).create(id=self.id, created_at=clock.now(), **columns)
            self._new = None

    def _end(self, *, failed: bool) -> None:
        if not self._is_mine:
            return
        store: Any = shared_store(self._alias)
        if failed:
            # A transaction that the exception rolls back takes the batch with it.
            if not (store.database.connection.in_atomic_block and store.database.connection.needs_rollback):
                self.cancel()
        elif not self._stays_open:
            with suppress(UnknownBatch):
                self.close()

    def _check(self, store: Any) -> None:
        """Return if members may be added. Raises BatchClosed and UnknownBatch."""
        blocks = store.database.connection.atomic_blocks
        if self._unseen is not None and blocks and blocks[0] is self._unseen:
            return
        if self._is_member:
            # The batch waits for the message that is being handled: no lock is needed.
            found = [row[:2] for row in store.database.rows("batch_facts", batch=self.id, near=1)]
        else:
            found = store.database.rows("join_batch", batch=self.id)
        if not found:
            raise self._unknown()
        state, is_cancelled = BatchState(found[0][0]), bool(found[0][1])
        if not may_add(state, cancelled=is_cancelled, is_member=self._is_member):
            how = (
                "was cancelled" if is_cancelled else "is closed" if state in LIVE else f"has ended: {state.value}"
            )
            raise BatchClosed(
                f"The batch {self.id} {how}, and takes no more members. Keep it open with open=True, or add to it"
                " from a handler of one of its members."
            )

    def _unknown(self) -> UnknownBatch:
        return UnknownBatch(f"There is no batch {self.id}: it was rolled back, or is too old.")

    # What is done to it.

    def close(self) -> BatchState:
        """Take no more members, except from handlers of members; return the state. It ends with its last member.

        A batch that is closed stays as it is. Raises UnknownBatch.
        """
        return self._settle(close=True)

    def _settle(self, *, close: bool) -> BatchState:
        from django_mq.batches import steering  # noqa: PLC0415 - as above

        return steering.settled(self.id, close=close, using=self._alias)

    def cancel(self, *, running: bool = False) -> int:
        """Close the batch and remove the members that no worker has begun; return how many were removed.

        With ``running``, workers are asked to stop what they hold, as by ``django_mq.api.cancel``. The batch ends
        when its last member has ended. A batch that has ended stays as it is. Raises UnknownBatch.
        """
        from django_mq.batches import steering  # noqa: PLC0415 - as above

        return steering.cancel(self.id, running=running, using=self._alias).changed

    def redrive(self) -> int:
        """Redrive the dead letters of the members that have failed; return how many.

        The batch runs again until they have ended. Callbacks that were published are not published again.
        Raises UnknownBatch.
        """
        from django_mq.batches import steering  # noqa: PLC0415 - as above

        return steering.redrive(self.id, using=self._alias).changed

    def figures(self) -> BatchFigures:
        """Return how the batch stands now. Raises UnknownBatch."""
        from django_mq.batches.ends import counted  # noqa: PLC0415 - as above
        from django_mq.batches.models import MessageBatch  # noqa: PLC0415 - as above

        row = MessageBatch.objects.using(self._alias).filter(pk=self.id).first()
        if row is None:
            raise self._unknown()
        return BatchFigures(
            id=self.id,
            name=row.name,
            state=BatchState(row.state),
            counts=counted(shared_store(self._alias), self.id),
            created_at=row.created_at,
            ended_at=row.ended_at,
            is_cancelled=row.cancelled_at is not None,
        )


def batch(
    name: str = "",
    *,
    on_complete: Any = None,
    on_success: Any = None,
    on_failure: Any = None,
    open: bool = False,  # noqa: A002 - the word of the state
    using: str | None = None,
) -> BatchHandle:
    """Return a new batch, for a ``with`` block: what is published inside are its members.

    At the end of the block the batch is closed, and ends with its last member; with ``open``, ``close()`` closes
    it. ``on_complete`` is published when all members have ended, ``on_success`` when all have succeeded, and
    ``on_failure`` when the first one has failed; each once. Each is a pair of queue and body, an OutgoingMessage,
    or a signature of Celery. The batch is part of the transaction that is open.

    Raises, before anything is written: InvalidMessage or a subclass, UnknownQueue, UnsupportedRule.
    """
    from django_mq.batches.callbacks import stored  # noqa: PLC0415 - as above

    store, id_ = _store(using), new_message_id()
    given = {"name": text(name, "The name of a batch", limit=NAME_LENGTH) or ""}
    callbacks = dict(zip(BatchCallback, (on_complete, on_success, on_failure), strict=True))
    columns = {f"on_{what.value}": stored(each, what, id_, store) for what, each in callbacks.items()}
    return BatchHandle(id_, store.alias, new={**given, **columns}, open_=bool(open))


def _store(using: str | None) -> Store:
    return database_store(using or conf.load().DATABASE, "batches")


def find_batch(id_: UUID | str, *, using: str | None = None) -> BatchHandle:
    """Return the batch with this id, to add to it while it is open, or to close, cancel, redrive or read it.

    The database is asked when the batch is used. Raises UnknownBatch for what is no id.
    """
    try:
        known = id_ if isinstance(id_, UUID) else UUID(id_)
    except (ValueError, TypeError, AttributeError):
        raise UnknownBatch(f"{shown(id_)} is no id of a batch.") from None
    return BatchHandle(known, _store(using).alias)


def current_batch(message: Any, *, using: str | None = None) -> BatchHandle:
    """Return the batch of the message that is being handled, or of the Celery task that is running, to add to it.

    The batch waits for this message, so that it cannot end before the handler does. Raises BatchMisused for a
    message, or a task, of no batch.
    """
    headers = _headers_of(message)
    try:
        id_ = UUID(headers[BATCH_HEADER])
    except (KeyError, ValueError, TypeError, AttributeError):
        raise BatchMisused(
            "The message belongs to no batch. Publish it inside of a batch, or begin a new one with batch()."
        ) from None
    return BatchHandle(id_, _store(using).alias, member=True)


def _headers_of(message: Any) -> Any:
    request = getattr(message, "request", None)
    if request is None:
        return message.headers
    return {**(getattr(request, "headers", None) or {}), BATCH_HEADER: request.get(BATCH_HEADER)}


def batch_state(id_: UUID | str, *, using: str | None = None) -> BatchFigures:
    """Return how the batch with this id stands now. Raises UnknownBatch."""
    return find_batch(id_, using=using).figures()
