"""What a queue's owner wants to hear of, and how often."""

from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Final

from django_mq.errors import OutOfRange

#: Between two alerts of one kind, in seconds.
DEFAULT_GAP_SECONDS: Final = 30.0


class AlertKind(Enum):
    """What was found too much."""

    MESSAGES = "messages"
    SIZE_BYTES = "size in bytes"
    MESSAGE_SIZE = "message size in bytes"
    OLDEST_AGE = "age of the oldest in seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLimits:
    """From where on there is an alert; 0 is never. Raises OutOfRange for a negative limit."""

    #: So many messages in the queue, or more.
    messages: int = 0
    #: So many bytes in the queue, or more.
    size_bytes: int = 0
    #: A message of so many bytes, or more.
    message_size: int = 0
    #: The oldest message is older than this.
    oldest_age_seconds: float = 0.0

    def __post_init__(self) -> None:
        limits = (self.messages, self.size_bytes, self.message_size, self.oldest_age_seconds)
        # Asked this way round, for a number that is none (NaN) is not negative either.
        if not all(limit >= 0 for limit in limits):
            raise OutOfRange(f"An alert's limit is not negative: {self}.")


@dataclass(frozen=True, slots=True)
class Alert:
    """One limit was reached: ``str`` says it in words."""

    kind: AlertKind
    value: float
    limit: float

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.value}, limit {self.limit}"


class Alerts:
    """Which alerts are due, each kind at most once within a gap.

    A large message is told of every time, for it is not the same message. Ages change while
    nothing happens, so they are checked by whoever looks at the clock. Not safe by itself: the
    queue's lock guards it.
    """

    __slots__ = ("_raised_at", "gap_seconds", "limits")

    def __init__(self, limits: AlertLimits, gap_seconds: float = DEFAULT_GAP_SECONDS) -> None:
        """``limits`` may be replaced at any time. Raises OutOfRange for a negative gap."""
        if not gap_seconds >= 0:
            raise OutOfRange(f"The gap between two alerts is not negative: {gap_seconds}.")
        self.limits = limits
        self.gap_seconds = gap_seconds
        self._raised_at: dict[AlertKind, float] = {}

    def check_arrival(self, now: float, count: int, size_bytes: int, size: int) -> list[Alert]:
        """The alerts due as a message of ``size`` bytes has arrived, which is counted already.

        ``count`` and ``size_bytes`` are those of the whole queue.
        """
        limits, alerts = self.limits, []
        if 0 < limits.messages <= count and self._due(AlertKind.MESSAGES, now):
            alerts.append(Alert(AlertKind.MESSAGES, count, limits.messages))
        if 0 < limits.size_bytes <= size_bytes and self._due(AlertKind.SIZE_BYTES, now):
            alerts.append(Alert(AlertKind.SIZE_BYTES, size_bytes, limits.size_bytes))
        if 0 < limits.message_size <= size:
            alerts.append(Alert(AlertKind.MESSAGE_SIZE, size, limits.message_size))
        return alerts

    def check_age(self, now: float, oldest_age: float | None) -> list[Alert]:
        """The alert due if the oldest message is so many seconds old; None: there is none."""
        limit = self.limits.oldest_age_seconds
        if oldest_age is None or not 0 < limit < oldest_age or not self._due(AlertKind.OLDEST_AGE, now):
            return []
        return [Alert(AlertKind.OLDEST_AGE, oldest_age, limit)]

    def _due(self, kind: AlertKind, now: float) -> bool:
        since = now - self._raised_at.get(kind, -inf)
        # A clock that was set back must not silence alerts until it has caught up.
        if 0 <= since < self.gap_seconds:
            return False
        self._raised_at[kind] = now
        return True
