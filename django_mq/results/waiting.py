"""Wakes the programs that wait for the result of a task: see ``notifications/waiters.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django_mq.notifications.registry import notifier
from django_mq.notifications.waiters import BEAT_SECONDS, WAITERS, topic_of

if TYPE_CHECKING:
    from django_mq.stores.base import Store

__all__: Final = ["BEAT_SECONDS", "WAITERS", "announce", "topic_of"]


def announce(task_id: str, store: Store) -> None:
    """Wake the threads that wait for the result of this task, after the commit of the store's transaction."""
    topic = topic_of(task_id)
    store.database.after_commit(lambda: notifier().send([topic], over=store))
