"""The two ends of the hint channel.

Two kinds of hint travel. *News* goes to as many interested sessions as there are messages:
each is told on its own. A *topic* goes to everybody who listens to it: a resumed queue,
a volatile message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from django_mq.notifications.wake import Wake


#: The topic of all workers: one of them has been told something.
WORKERS_TOPIC = "w:told"


def queue_topic(name: str) -> str:
    """Return the topic of a durable queue."""
    return f"q:{name}"


def volatile_topic(name: str) -> str:
    """Return the topic of a volatile queue."""
    return f"v:{name}"


def notice_topic(name: str, *, back: bool = False) -> str:
    """Return the topic by which one session alone is told of a queue's news, or of messages that came back."""
    return f"b:{name}" if back else f"n:{name}"


def queue_of(topic: str) -> str:
    """Return the queue that a topic is about."""
    return topic[2:]


@dataclass(frozen=True, slots=True)
class News:
    """What a commit brought to a queue: so many ready messages, and one that is due in so many seconds.

    ``back``: they have their places from before, where a session that is told may have looked already.
    """

    messages: int = 0
    due_seconds: float | None = None
    back: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What a session learns when it becomes interested.

    ``missed``: news found nobody since the session last asked, so it must look before it
    sleeps. ``due_seconds``: it must look in so many seconds, because something is due.
    ``ask_seconds``: another session does, and this one must become interested anew then,
    to see whether it did.
    """

    missed: bool = False
    due_seconds: float | None = None
    ask_seconds: float | None = None


class Notifier(ABC):
    """Sends hints. Never raises and never waits longer than its time limit: a publisher must not suffer."""

    #: Whether hints reach other processes; if not, workers there look regularly.
    reaches_others: bool

    @abstractmethod
    def send(self, topics: Iterable[str]) -> None:
        """Wake whoever listens to these topics, as far as possible."""

    def announce(self, news: Mapping[str, News], *, may_wait: bool = False) -> None:  # noqa: ARG002
        """Wake as many interested sessions of each queue as there are messages, or everybody who listens.

        ``may_wait``: a moment later is as good while nobody would hear it.
        """
        self.send([queue_topic(name) for name in news])

    @abstractmethod
    def listen(self, wake: Wake) -> Listener:
        """Return a listener that sets ``wake``; it hears nothing until it subscribes."""

    def trouble(self) -> str:
        """Send a hint to ourselves and return why it did not come back, nothing if it did. For an examination."""
        return ""


class Listener(ABC):
    """Hears hints for one worker session. A reconnect also sets the wake: hints may have been missed."""

    @abstractmethod
    def subscribe(self, topics: Iterable[str]) -> None:
        """Listen to exactly these topics from now on."""

    def interest(
        self,
        queues: Collection[str],  # noqa: ARG002 - a channel that tells everybody asks nobody
        *,
        due_seconds: float | None = None,
        following: bool = False,  # noqa: ARG002
        priority: int = 0,  # noqa: ARG002
    ) -> Standing:
        """Be told of news of these queues, before a session sleeps, and again at least every safety poll.

        Whoever is told, wakes by ``notice_topic`` and is interested no more. Sessions of
        higher ``priority`` are told first, then those that were interested longest.
        ``due_seconds`` until the next message of these queues is due, as far as the session
        knows; ``following``: another session was said to see to it.
        """
        return Standing(due_seconds=due_seconds)

    def withdraw(self, answered: Collection[str] = ()) -> None:  # noqa: B027 - nothing to take back by default
        """Be told no more, because there is work; ``answered``: the queues whose notice has been seen to."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether hints arrive now; if not, the worker should look more often."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""
