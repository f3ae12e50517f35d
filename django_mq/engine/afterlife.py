"""Where a message goes when it is dead or expired: to another queue, or nowhere.

What arrives there is a new message of the same body: its attempts begin anew, a schedule is
forgotten, and headers tell where it came from.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from django_mq.engine.fate import DISCARDED, Fate
from django_mq.engine.states import GONE
from django_mq.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message
    from django_mq.engine.queue import Queue
    from django_mq.engine.rules import Rules

#: Headers of a message that has died or expired elsewhere. They tell of its last station only.
ORIGIN_QUEUE: Final = "x-origin-queue"
ORIGIN_ID: Final = "x-origin-id"
ORIGIN_CAUSE: Final = "x-origin-cause"


def departed(message: "Message", queue: str, cause: str, *, forget_end: bool) -> "Message":
    """The message as it arrives in the next queue."""
    origin = {ORIGIN_QUEUE: queue, ORIGIN_ID: message.id, ORIGIN_CAUSE: cause}
    return replace(
        message,
        headers={**message.headers, **origin},
        deliver_at=None,
        duplicate_id=None,
        expires_at=None if forget_end else message.expires_at,
    )


class Afterlife:
    """Sends what has died or expired in one queue on its way."""

    __slots__ = ("_queue", "_resolve", "_rules")

    def __init__(self, queue: str, rules: "Rules", resolve: "Callable[[str], Queue | None]") -> None:
        self._queue = queue
        self._rules = rules
        self._resolve = resolve

    def dead(self, entry: "Entry", now: float, cause: str) -> Fate:
        """Send a dead entry on; says whether it went, is to be kept here, or is to be discarded."""
        if self._send(self._rules.dead_letter_queue, entry, now, cause):
            return Fate.DEAD_LETTERED
        # A dead-letter queue that is missing or full is a mistake, and no reason to lose the message.
        return Fate.DEAD if self._rules.keep_dead else DISCARDED

    def expired(self, entry: "Entry", now: float) -> bool:
        """Send an expired entry on; False if it goes nowhere."""
        return self._send(self._rules.expiry_queue, entry, now, "expired")

    def _send(self, name: str | None, entry: "Entry", now: float, cause: str) -> bool:
        target = None if name is None or name == self._queue else self._resolve(name)
        if target is None:
            return False
        message = departed(entry.message, self._queue, cause, forget_end=self._rules.ends_forgotten)
        expires_at = target.rules.lifetime.end(message.expires_at, now)
        if expires_at is not None and expires_at <= now:
            return False  # it would be expired on arrival
        try:
            return target.publish(message, now).state is not GONE
        except PublishError:
            return False
