"""The verbs of the Python API, which change messages that are named by their ids.

They call the functions that the admin and the commands call. In a transaction, a verb is a part of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.delivery.publisher import run_apart

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from django_mq.delivery.operator.answers import Answer, MessageIds
    from django_mq.delivery.operator.named import Named


def cancel(
    message_ids: MessageIds, *, running: bool = False, queue: str | None = None, using: str | None = None
) -> list[Answer]:
    """Remove messages that no worker has begun; return what happened to each.

    Outside a transaction, workers give back what they hold and have not begun. For this, its queue is paused for a
    moment. With ``running``, workers are asked instead to stop what they hold, and remove it: a handler hears it
    by ``message.cancelled``, and one that does not end in time is given up.

    Raises InvalidMessage and UnknownQueue.
    """
    return _named(message_ids, queue, using).cancel(running=running)


def move(message_ids: MessageIds, to: str, *, queue: str | None = None, using: str | None = None) -> list[Answer]:
    """Move messages that no worker has begun to the tail of another queue; their attempts start again.

    A message stays if the other queue has a copy of it, or no capacity. Outside a transaction, workers give back
    what they have not begun, as for ``cancel``. Raises InvalidMessage, UnknownQueue and QueueClosed, and QueueFull
    if none fits; then nothing is moved.
    """
    return _named(message_ids, queue, using).move(to)


def redrive(
    message_ids: MessageIds, *, to: str | None = None, queue: str | None = None, using: str | None = None
) -> list[Answer]:
    """Return dead letters to the queues they came from, or move them to the queue ``to``.

    Their attempts start again. A message stays if it is no dead letter, or if its queue is gone, closed or full.
    Raises InvalidMessage and UnknownQueue, and QueueClosed for ``to``.
    """
    return _named(message_ids, queue, using).redrive(to)


def reschedule(
    message_ids: MessageIds,
    *,
    deliver_at: datetime | None = None,
    delay: timedelta | float | None = None,
    now: bool = False,
    queue: str | None = None,
    using: str | None = None,
) -> list[Answer]:
    """Deliver messages that wait at another time, or after a ``delay``; or scheduled and parked ones ``now``.

    A time in the past means at once. Values of a last-value queue keep their times, and can only be delivered now.
    Raises InvalidMessage and UnknownQueue.
    """
    return _named(message_ids, queue, using).reschedule(deliver_at, delay, now=now)


def release(message_ids: MessageIds, *, queue: str | None = None, using: str | None = None) -> list[Answer]:
    """Take messages from the workers that hold them; they are ready again, uncounted, in their old places.

    A worker that handles such a message goes on with it, and its outcome is void, so it may be handled twice.
    Raises InvalidMessage and UnknownQueue.
    """
    return _named(message_ids, queue, using).release()


async def acancel(
    message_ids: MessageIds, *, running: bool = False, queue: str | None = None, using: str | None = None
) -> list[Answer]:
    """Cancel from async code: like ``cancel``, but in another thread and in a transaction of its own."""
    return await run_apart(partial(cancel, message_ids, running=running, queue=queue, using=using))


async def amove(
    message_ids: MessageIds, to: str, *, queue: str | None = None, using: str | None = None
) -> list[Answer]:
    """Move from async code: like ``move``, but in another thread and in a transaction of its own."""
    return await run_apart(partial(move, message_ids, to, queue=queue, using=using))


async def aredrive(
    message_ids: MessageIds, *, to: str | None = None, queue: str | None = None, using: str | None = None
) -> list[Answer]:
    """Redrive from async code: like ``redrive``, but in another thread and in a transaction of its own."""
    return await run_apart(partial(redrive, message_ids, to=to, queue=queue, using=using))


async def areschedule(
    message_ids: MessageIds,
    *,
    deliver_at: datetime | None = None,
    delay: timedelta | float | None = None,
    now: bool = False,
    queue: str | None = None,
    using: str | None = None,
) -> list[Answer]:
    """Reschedule from async code: like ``reschedule``, but in another thread and in a transaction of its own."""
    asked = partial(reschedule, message_ids, deliver_at=deliver_at, delay=delay, now=now, queue=queue, using=using)
    return await run_apart(asked)


async def arelease(message_ids: MessageIds, *, queue: str | None = None, using: str | None = None) -> list[Answer]:
    """Release from async code: like ``release``, but in another thread and in a transaction of its own."""
    return await run_apart(partial(release, message_ids, queue=queue, using=using))


def _named(message_ids: MessageIds, queue: str | None, using: str | None) -> Named:
    from django_mq.delivery.operator.named import Named  # noqa: PLC0415 - models; an app may not be installed

    return Named(message_ids, queue, using)
