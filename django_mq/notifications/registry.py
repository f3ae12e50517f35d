"""The notifier of this process: the one that the settings choose, or one that keeps hints within the process."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from django.db import connections
from django.utils.module_loading import import_string

from django_mq import conf
from django_mq.errors import UnsupportedDatabase
from django_mq.notifications.base import Listener, News, Notifier, Registration, notification_topic, queue_topic
from django_mq.process import at_fork
from django_mq.seams.findings import ok, problem
from django_mq.stores.registry import kind_of, wanted_hints

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from django_mq.notifications.base import Wake
    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.notifications")


def notifier() -> Notifier:
    """Return the notifier that ``HINTS`` names. Opens nothing."""
    settings = conf.load()
    kind = hints_of(settings)
    if kind == "redis":
        return _redis(
            settings.REDIS_URL or "",
            settings.REDIS_PREFIX,
            settings.REDIS_TIMEOUT_SECONDS,
            # Renewed at every safety poll; one that is late for four is hung.
            max(4 * settings.SAFETY_POLL_SECONDS, 10.0),
        )
    if kind == "postgresql":
        return _postgresql(settings.DATABASE, settings.LISTEN_DATABASE)
    return _local() if kind == "none" else _imported(kind)


def hints_of(settings: conf.Settings) -> str:
    """Return what carries hints: what is wanted, or nothing if the database cannot."""
    wanted = wanted_hints(settings)
    return wanted if wanted != "postgresql" or carries_hints(settings.DATABASE) else "none"


def carries_hints(alias: str) -> bool:
    """Whether the database of an alias can notify sessions itself."""
    try:
        return kind_of(connections[alias]).features.carries_hints
    except UnsupportedDatabase:
        return False


@lru_cache(maxsize=1)
def _local() -> LocalNotifier:
    return LocalNotifier()


@lru_cache(maxsize=8)
def _postgresql(alias: str, listen_alias: str | None) -> Notifier:
    from django_mq.notifications.postgresql import PostgreSQLNotifier  # noqa: PLC0415 - only where it is used

    return PostgreSQLNotifier(alias, listen_alias=listen_alias)


@lru_cache(maxsize=8)
def _redis(url: str, prefix: str, timeout_seconds: float, registration_seconds: float) -> Notifier:
    from django_mq.notifications.redis import MEND, RedisNotifier  # noqa: PLC0415 - Redis only where it is used

    try:
        return RedisNotifier(
            url, prefix=prefix, timeout_seconds=timeout_seconds, registration_seconds=registration_seconds
        )
    except ValueError:
        # The error may hold a part of a password.
        return _unusable(
            problem("redis", "Hints do not work: the client cannot read an option of REDIS_URL.", MEND)
        )


@lru_cache(maxsize=8)
def _imported(path: str) -> Notifier:
    """Return a notifier of the class with this dotted path."""
    try:
        return class_named(path)()
    except Exception as error:  # noqa: BLE001 - a class of the project may raise anything
        mend = "Correct DJANGO_MQ['HINTS']. Until then workers look regularly."
        return _unusable(problem("hints", f"HINTS is {path!r}, which cannot be used: {error}", mend))


def class_named(path: str) -> type[Notifier]:
    """Return the class of notifiers with this dotted path. Raises TypeError, and what its import raises."""
    found = import_string(path)
    if not (isinstance(found, type) and issubclass(found, Notifier)):
        raise TypeError(f"{path} is no class of notifiers")
    return found


def _unusable(finding: Finding) -> Notifier:
    """Return a notifier for this process alone: a publisher comes here when its message has been written."""
    logger.error("%s No hint leaves this process.", finding.sentence)
    return Unusable(finding)


# Without a server: hints within this process.


class LocalNotifier(Notifier):
    """Sets the wakes of this process's listeners directly."""

    reaches_others = False

    def __init__(self) -> None:
        self._forget_parent()
        # A forked child must not wait for a lock that a thread of its parent held.
        at_fork(after_in_child=self._forget_parent)

    def send(self, topics: Iterable[str], *, over: Store | None = None) -> None:  # noqa: ARG002
        with self._lock:
            named = [(wake, topic) for topic in topics for wake in self._wakes.get(topic, ())]
        for wake, topic in named:
            wake.set(topic)

    def announce(
        self,
        news: Mapping[str, News],
        *,
        may_wait: bool = False,  # noqa: ARG002
        over: Store | None = None,  # noqa: ARG002
    ) -> None:
        with self._lock:
            chosen = [(self._chosen(queue, item), queue, item.back) for queue, item in news.items()]
        for listeners, queue, back in chosen:
            if listeners is None:
                self.send([queue_topic(queue)])
                continue
            for listener in listeners:
                listener.wake.set(notification_topic(queue, back=back))

    def _chosen(self, queue: str, news: News) -> list[LocalListener] | None:
        """Unregister and return the listeners to notify; None if none has ever registered for the queue."""
        if queue not in self._missed:
            return None
        waiting = sorted(self._idle[queue].items(), key=lambda item: item[1])
        # Each session looks at due times by itself: the answer to a claim names the next one.
        wanted = news.messages + (news.due_seconds is not None)
        chosen = [listener for listener, _ in waiting[:wanted]]
        if len(chosen) < wanted:
            self._missed[queue] += 1
        for listener in chosen:
            self._unregister(listener)
            listener.seen[queue] = self._missed[queue]  # its claim brings what it missed
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

    def register(self, listener: LocalListener, queues: Collection[str], priority: int) -> dict[str, int]:
        """Register the listener as idle; return how often each queue's news found no idle session."""
        with self._lock:
            self._arrivals += 1
            for queue in queues:
                self._idle[queue].setdefault(listener, (-priority, self._arrivals))
                self._missed.setdefault(queue, 0)
            return {queue: self._missed[queue] for queue in queues}

    def unregister(self, listener: LocalListener) -> None:
        """End the registration of the listener."""
        with self._lock:
            self._unregister(listener)

    def _unregister(self, listener: LocalListener) -> None:
        for listeners in self._idle.values():
            listeners.pop(listener, None)

    def _forget_parent(self) -> None:
        # Reentrant: a signal's handler may cancel consumers in the middle of a hint.
        self._lock = threading.RLock()
        self._wakes: dict[str, set[Wake]] = defaultdict(set)
        # The idle listeners with priority and order of arrival; how often news of the queue found none.
        self._idle: dict[str, dict[LocalListener, tuple[int, int]]] = defaultdict(dict)
        self._missed: dict[str, int] = {}
        self._arrivals = 0

    def findings(self) -> Iterator[Finding]:
        yield ok("hints", "Hints stay within a process, and workers look regularly.")


class LocalListener(Listener):
    """Hears the hints of this process for one session."""

    connected = True

    def __init__(self, notifier: LocalNotifier, wake: Wake) -> None:
        self._notifier = notifier
        self.wake = wake
        self._topics: set[str] = set()
        #: How often each queue's news had found no idle session when this one last registered or was notified.
        self.seen: dict[str, int] = {}

    def subscribe(self, topics: Iterable[str]) -> None:
        wanted = set(topics)
        self._notifier.change(self.wake, self._topics, wanted)
        self._topics = wanted

    def register_idle(
        self,
        queues: Collection[str],
        *,
        due_seconds: float | None = None,
        following: bool = False,  # noqa: ARG002
        priority: int = 0,
    ) -> Registration:
        missed = self._notifier.register(self, queues, priority)
        changed = any(self.seen.get(queue) != count for queue, count in missed.items())
        self.seen |= missed
        return Registration(missed=changed, due_seconds=due_seconds)

    def withdraw(self, answered: Collection[str] = ()) -> None:  # noqa: ARG002
        self._notifier.unregister(self)

    def close(self) -> None:
        self.subscribe(())
        self._notifier.unregister(self)


class Unusable(LocalNotifier):
    """Keeps hints in this process, because what the settings name cannot be used."""

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self._finding = finding

    def findings(self) -> Iterator[Finding]:
        yield self._finding
