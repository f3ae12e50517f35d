"""A queue stops, and goes on: the row says so, then whoever listens is told."""

from __future__ import annotations

from functools import partial

from django_mq import conf, signals
from django_mq.delivery import hinting, validation
from django_mq.errors import InvalidMessage
from django_mq.stores.registry import shared_store


def pause(queue: str, *, reason: str = "", seconds: float | None = None, using: str | None = None) -> None:
    """Deliver nothing from the queue, for so long or until ``resume``; publishing goes on.

    Raises UnknownQueue, and InvalidMessage for a time or a reason that is none.
    """
    queue = validation.existing(queue)
    if not isinstance(reason, str):
        raise InvalidMessage(f"reason must be a string, not {type(reason).__name__}.")
    if seconds is not None:
        seconds = validation.seconds(seconds, "seconds")
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=True, reason=reason, seconds=seconds)
    tell = partial(signals.tell, signals.queue_paused, queue=queue, reason=reason, seconds=seconds, using=alias)
    store.after_commit(tell)


def resume(queue: str, *, using: str | None = None) -> None:
    """Deliver again, at once. Raises UnknownQueue."""
    queue = validation.existing(queue)
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=False)
    hinting.hint([queue], using=alias)
    store.after_commit(partial(signals.tell, signals.queue_resumed, queue=queue, using=alias))
