"""What a consumer of a stored queue hears, as the session of a worker does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.notifications.base import News, Wake, notification_topic, queue_of, queue_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from django_mq.notifications.base import Notifier


class Hints:
    """A listener that is idle or at work; ``woken`` is called when it is told something."""

    def __init__(self, notifier: Notifier, woken: Callable[[], None]) -> None:
        self._notifier = notifier
        self._wake = _Wake(self._hear)
        self._listener = notifier.listen(self._wake)
        self._woken = woken
        #: Queues for which it was notified, and has neither claimed nor handed the notification on.
        self._notified: set[str] = set()
        #: Whether it has missed news.
        self._looks = False

    def _hear(self, topic: str) -> None:
        if topic == notification_topic(queue_of(topic)):
            self._notified.add(queue_of(topic))
        self._woken()

    def listen(self, queues: Collection[str]) -> None:
        """Listen to what is for all sessions of these queues."""
        self._listener.subscribe(map(queue_topic, queues))

    def wait(self, queues: Collection[str], priority: int, could_find: Callable[[], bool]) -> None:
        """Register as idle, unless it has to look: it was notified, or missed news of what it could find."""
        if self._notified or self._looks:
            return
        registered = self._listener.register_idle(queues, priority=priority)
        self._looks = registered.missed and could_find()
        if self._looks:
            self._listener.withdraw()
            self._woken()

    def found(self, *, something: bool) -> None:
        """It has claimed: the notification has led to a message, or is passed on to all."""
        notified = self._at_work()
        if notified and not something:
            self._notifier.send(map(queue_topic, notified))

    def hand_on(self) -> None:
        """Notify another session in its place: it cannot claim."""
        notified = self._at_work()
        if notified:
            self._notifier.announce(dict.fromkeys(notified, News(messages=1)))

    def _at_work(self) -> set[str]:
        notified, self._notified, self._looks = self._notified, set(), False
        self._listener.withdraw()
        return notified

    def close(self) -> None:
        """Hand on, and listen no more."""
        self.hand_on()
        self._listener.close()
        self._wake.close()


class _Wake(Wake):
    """Says at once what it is set to."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__()
        self._hear = hear

    def set(self, topic: str | None = None) -> None:
        if topic is not None:
            self._hear(topic)
