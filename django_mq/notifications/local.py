"""Hints within one process: for tests, threads, and SQLite where nothing else is at hand."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from django_mq.notifications.base import Listener, Notifier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.notifications.wake import Wake


class LocalNotifier(Notifier):
    """Sets the wakes of this process's listeners directly."""

    reaches_others = False

    def __init__(self) -> None:
        # Reentrant: a signal's handler may cancel consumers in the middle of a hint.
        self._lock = threading.RLock()
        self._wakes: dict[str, set[Wake]] = defaultdict(set)
        # A forked child must not wait for a lock that a thread of its parent held.
        os.register_at_fork(after_in_child=self._forget_parent)

    def send(self, topics: Iterable[str]) -> None:
        with self._lock:
            named = [(wake, topic) for topic in topics for wake in self._wakes.get(topic, ())]
        for wake, topic in named:
            wake.set(topic)

    def listen(self, wake: Wake) -> LocalListener:
        return LocalListener(self, wake)

    def change(self, wake: Wake, before: set[str], after: set[str]) -> None:
        """Move a listener from one set of topics to another."""
        with self._lock:
            for topic in before - after:
                self._wakes[topic].discard(wake)
                if not self._wakes[topic]:
                    del self._wakes[topic]
            for topic in after - before:
                self._wakes[topic].add(wake)

    def _forget_parent(self) -> None:
        # Reentrant: a signal's handler may cancel consumers in the middle of a hint.
        self._lock = threading.RLock()
        self._wakes.clear()


class LocalListener(Listener):
    """One worker's ear inside the process."""

    connected = True

    def __init__(self, notifier: LocalNotifier, wake: Wake) -> None:
        self._notifier = notifier
        self._wake = wake
        self._topics: set[str] = set()

    def subscribe(self, topics: Iterable[str]) -> None:
        wanted = set(topics)
        self._notifier.change(self._wake, self._topics, wanted)
        self._topics = wanted

    def close(self) -> None:
        self.subscribe(())
