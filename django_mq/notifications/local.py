"""Hints within one process: for tests, threads, and SQLite where nothing else is at hand."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from django_mq.notifications.base import Listener, News, Notifier, Standing, notice_topic, queue_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from django_mq.notifications.base import Wake


class LocalNotifier(Notifier):
    """Sets the wakes of this process's listeners directly."""

    reaches_others = False

    def __init__(self) -> None:
        self._forget_parent()
        # A forked child must not wait for a lock that a thread of its parent held.
        os.register_at_fork(after_in_child=self._forget_parent)

    def send(self, topics: Iterable[str]) -> None:
        with self._lock:
            named = [(wake, topic) for topic in topics for wake in self._wakes.get(topic, ())]
        for wake, topic in named:
            wake.set(topic)

    def announce(self, news: Mapping[str, News], *, may_wait: bool = False) -> None:  # noqa: ARG002
        with self._lock:
            told = [(self._chosen(queue, item), queue, item.back) for queue, item in news.items()]
        for listeners, queue, back in told:
            if listeners is None:
                self.send([queue_topic(queue)])
                continue
            for listener in listeners:
                listener.wake.set(notice_topic(queue, back=back))

    def _chosen(self, queue: str, news: News) -> list[LocalListener] | None:
        """Take the interested listeners to tell; None where nobody has ever been interested."""
        if queue not in self._missed:
            return None
        waiting = sorted(self._interested[queue].items(), key=lambda item: item[1])
        # Everybody arms for due times by himself here: one who claims learns of them.
        wanted = news.messages + (news.due_seconds is not None)
        chosen = [listener for listener, _ in waiting[:wanted]]
        if len(chosen) < wanted:
            self._missed[queue] += 1
        for listener in chosen:
            self._end_interest(listener)
            listener.seen[queue] = self._missed[queue]  # its claim brings what it missed, too
        return chosen

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

    def be_interested(self, listener: LocalListener, queues: Collection[str], priority: int) -> dict[str, int]:
        """Let the listener be told of news; return how often each queue's news found nobody."""
        with self._lock:
            self._turn += 1
            for queue in queues:
                self._interested[queue].setdefault(listener, (-priority, self._turn))
                self._missed.setdefault(queue, 0)
            return {queue: self._missed[queue] for queue in queues}

    def lose_interest(self, listener: LocalListener) -> None:
        """Tell the listener no more."""
        with self._lock:
            self._end_interest(listener)

    def _end_interest(self, listener: LocalListener) -> None:
        for listeners in self._interested.values():
            listeners.pop(listener, None)

    def _forget_parent(self) -> None:
        # Reentrant: a signal's handler may cancel consumers in the middle of a hint.
        self._lock = threading.RLock()
        self._wakes: dict[str, set[Wake]] = defaultdict(set)
        # Who is interested, with its priority and its turn; and how often news of the queue found nobody.
        self._interested: dict[str, dict[LocalListener, tuple[int, int]]] = defaultdict(dict)
        self._missed: dict[str, int] = {}
        self._turn = 0


class LocalListener(Listener):
    """One worker's ear inside the process."""

    connected = True

    def __init__(self, notifier: LocalNotifier, wake: Wake) -> None:
        self._notifier = notifier
        self.wake = wake
        self._topics: set[str] = set()
        #: How often each queue's news had found nobody when this session last asked, or was told.
        self.seen: dict[str, int] = {}

    def subscribe(self, topics: Iterable[str]) -> None:
        wanted = set(topics)
        self._notifier.change(self.wake, self._topics, wanted)
        self._topics = wanted

    def interest(
        self,
        queues: Collection[str],
        *,
        due_seconds: float | None = None,
        following: bool = False,  # noqa: ARG002
        priority: int = 0,
    ) -> Standing:
        missed = self._notifier.be_interested(self, queues, priority)
        changed = any(self.seen.get(queue) != count for queue, count in missed.items())
        self.seen |= missed
        return Standing(missed=changed, due_seconds=due_seconds)

    def withdraw(self, answered: Collection[str] = ()) -> None:  # noqa: ARG002
        self._notifier.lose_interest(self)

    def close(self) -> None:
        self.subscribe(())
        self._notifier.lose_interest(self)
