"""A queue stops, and goes on: the row says so, then whoever listens is told."""

from __future__ import annotations

from functools import partial

from django_mq import conf, signals
from django_mq.delivery import hinting
from django_mq.stores.registry import shared_store


def pause(queue: str, *, reason: str = "", seconds: float | None = None, using: str | None = None) -> None:
    """Deliver nothing from the queue, for so long or until ``resume``; publishing goes on. Raises UnknownQueue."""
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=True, reason=reason, seconds=seconds)
    tell = partial(signals.tell, signals.queue_paused, queue=queue, reason=reason, seconds=seconds, using=alias)
    store.after_commit(tell)


def resume(queue: str, *, using: str | None = None) -> None:
    """Deliver again, at once. Raises UnknownQueue."""
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=False)
    hinting.hint([queue], using=alias)
    store.after_commit(partial(signals.tell, signals.queue_resumed, queue=queue, using=alias))
