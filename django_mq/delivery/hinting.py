"""The hint that waits for the commit. The row is written at once; only the wake-up waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.notifications.base import queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable


class _AfterCommit:
    """The topics one transaction will name when it commits; one call, however many messages."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = set(topics)

    def __call__(self) -> None:
        notifier().send(self.topics)


def hint(queue_names: Iterable[str], *, using: str) -> None:
    """Wake the workers of these queues, after the commit of the transaction that is open on ``using``, if any."""
    send_after_commit({queue_topic(name) for name in queue_names}, using=using)


def send_after_commit(topics: set[str], *, using: str) -> None:
    """Send topics now, or when the open transaction commits; never if it is rolled back."""
    store = shared_store(using)
    waiting = store.last_after_commit()
    # Django drops the callbacks of a savepoint that is rolled back, and adding topics to the
    # last one that is still there can only wake somebody in vain.
    if isinstance(waiting, _AfterCommit):
        waiting.topics.update(topics)
    else:
        store.after_commit(_AfterCommit(topics))
