"""The two ends of the hint channel, and what a hearer's loop waits for.

There are two kinds of hint. *News* goes to as many idle sessions as there are messages, to each on its
own. A *topic* goes to every session that listens to it: a resumed queue, a volatile message.
"""

from __future__ import annotations

import os
import select
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.seams.findings import ok, problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Set

    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store


#: The topic of all workers: an operator has sent a command to one of them.
WORKERS_TOPIC = "w:told"


def queue_topic(name: str) -> str:
    """Return the topic of a durable queue."""
    return f"q:{name}"


def volatile_topic(name: str) -> str:
    """Return the topic of a volatile queue."""
    return f"v:{name}"


def notification_topic(name: str, *, back: bool = False) -> str:
    """Return the topic that notifies one session of a queue's news, or of messages that came back."""
    return f"b:{name}" if back else f"n:{name}"


def queue_of(topic: str) -> str:
    """Return the queue that a topic is about."""
    return topic[2:]


@dataclass(frozen=True, slots=True)
class News:
    """What a commit brought to a queue: so many ready messages, and one that is due in so many seconds.

    ``back``: they have their places from before, where a session that is notified may have looked already.
    """

    messages: int = 0
    due_seconds: float | None = None
    back: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """What a session learns when it registers as idle.

    ``missed``: news found no idle session since this one last asked, so it must look before it
    sleeps. ``due_seconds``: it must look in so many seconds, because something is due.
    ``ask_seconds``: another session does, and this one must register again then, to see whether it did.
    """

    missed: bool = False
    due_seconds: float | None = None
    ask_seconds: float | None = None


class Notifier(ABC):
    """Sends hints. Never raises and never waits longer than its time limit: a publisher must not suffer."""

    #: Whether hints reach other processes; if not, workers there look regularly.
    reaches_others: bool

    @abstractmethod
    def send(self, topics: Iterable[str], *, over: Store | None = None) -> None:
        """Wake all that listen to these topics, as far as possible.

        ``over``: the store whose commit it was, whose connection may carry the hint.
        """

    def announce(
        self,
        news: Mapping[str, News],
        *,
        may_wait: bool = False,  # noqa: ARG002
        over: Store | None = None,
    ) -> None:
        """Wake as many idle sessions of each queue as there are messages, or all that listen.

        ``may_wait``: the hint may be sent a moment later while no session would hear it.
        """
        self.send([queue_topic(name) for name in news], over=over)

    @abstractmethod
    def listen(self, wake: Wake) -> Listener:
        """Return a listener that sets ``wake``; it hears nothing until it subscribes."""

    def findings(self) -> Iterator[Finding]:
        """Send a hint to this process, and say whether it came back. For ``mq_doctor``."""
        wake = Wake()
        listener = self.listen(wake)
        try:
            listener.subscribe([EXAMINATION])
            heard = _heard(self, listener, wake)
        finally:
            listener.close()
            wake.close()
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        if heard:
            yield ok("hints", f"A hint went through {name} and came back.")
        else:
            mend = "Correct DJANGO_MQ['HINTS'], or what the class connects to. Until then workers look regularly."
            yield problem("hints", f"A hint through {name} did not come back within {PATIENCE_SECONDS:g} s.", mend)


class Listener(ABC):
    """Hears hints for one worker session. A reconnect also sets the wake: hints may have been missed."""

    #: A registration must be renewed so often, in seconds; None for at every safety poll.
    renewal_seconds: float | None = None

    @abstractmethod
    def subscribe(self, topics: Iterable[str]) -> None:
        """Listen to exactly these topics from now on."""

    def register_idle(
        self,
        queues: Collection[str],  # noqa: ARG002 - a channel that wakes all sessions needs none of it
        *,
        due_seconds: float | None = None,
        following: bool = False,  # noqa: ARG002
        priority: int = 0,  # noqa: ARG002
    ) -> Registration:
        """Register the session for news of these queues, before it sleeps, and again at least every safety poll.

        A session that is notified wakes by ``notification_topic`` and is no longer registered. Sessions of
        higher ``priority`` are notified first, then those that are idle longest.
        ``due_seconds`` until the next message of these queues is due, as far as the session
        knows; ``following``: another session looks then.
        """
        return Registration(due_seconds=due_seconds)

    def withdraw(self, answered: Collection[str] = ()) -> None:  # noqa: B027 - nothing to take back by default
        """End the registration, because there is work. ``answered``: queues whose notification led to a claim."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether hints arrive now; if not, the worker should look more often."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""


#: The topic of a hint that examines the way, and how long to wait for it.
EXAMINATION, PATIENCE_SECONDS = "examination", 5.0
#: Time between two such hints: the listener may not hear the first ones.
AGAIN_SECONDS = 0.2


def _heard(notifier: Notifier, listener: Listener, wake: Wake) -> bool:
    """Send hints until one is heard; return whether one was."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if listener.connected:
            notifier.send([EXAMINATION])
        wake.wait(AGAIN_SECONDS)
        if EXAMINATION in wake.take_topics():
            return True
    return False


#: Stands for every topic: something happened, look at everything.
ANY = "*"
#: A look has found something, or may: no hint has come for it.
LOOK = "look"


class Wake:
    """Set from any thread, fork-safe to abandon; many sets before a clear count as one."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._pid = os.getpid()
        self._closed = False
        self._topics: set[str] = set()
        # A closed descriptor may soon belong to another file: no thread may write meanwhile.
        # Reentrant, because a signal's handler may set what it has interrupted.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the wake is set."""
        return self._reader

    def set(self, topic: str | None = None) -> None:
        """Make the descriptor readable, saying which topic was named, None for any.

        Harmless after close, and in a forked child.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._topics.add(topic or ANY)
                self._write()

    def _write(self) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            return  # full means it is set already

    def clear(self) -> bool:
        """Take the wake-up back; return whether there was one. A forked child takes none of its parent's."""
        was_set = False
        if os.getpid() != self._pid:
            return was_set
        with self._lock:
            try:
                while not self._closed and os.read(self._reader, 4096):
                    was_set = True
            except BlockingIOError:
                return was_set
        return was_set

    def take_topics(self) -> Set[str]:
        """Return, and forget, the topics named since the last call; ``ANY`` among them stands for all."""
        if os.getpid() != self._pid:
            return frozenset()
        with self._lock:
            topics, self._topics = self._topics, set()
        return topics

    def wait(self, timeout_seconds: float | None, *, clear: bool = True) -> bool:
        """Block until set or until the time is over; return whether it was set, and clear it, or not."""
        poller = select.poll()
        poller.register(self._reader, select.POLLIN)
        was_set = bool(poller.poll(None if timeout_seconds is None else max(0.0, timeout_seconds) * 1000))
        return self.clear() if clear else was_set

    def close(self) -> None:
        """Free the descriptors; setting it afterwards does nothing. A forked child keeps its copies."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._reader)
            os.close(self._writer)
