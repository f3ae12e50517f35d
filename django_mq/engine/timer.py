"""One timer for the earliest of many instants.

Artemis sets a timer for every distinct millisecond at which a message is due. Here there is
one, for the earliest instant. When it fires, its owner handles all that is due, and arms it again::

    if timer.fired(now):
        queue.promote(now)
        timer.arm(queue.next_due())

No wake-up is lost. ``fired`` clears the instant before the queue is read, so a message that is scheduled
meanwhile arms the timer by itself. Schedule the message first, then call ``arm``.
"""

from collections.abc import Callable
from threading import Lock

from django_mq.engine.timeline import NEVER


class Timer:
    """The instant of the next wake-up, on the clock of ``now``. Safe from any thread.

    ``set_timer`` is called with the instant, which may be in the past. It must see to a call of ``fired``
    then, and replaces what it set before. It is called under the timer's lock, so that
    a later instant never replaces an earlier one; it must not call the timer.
    """

    __slots__ = ("_at", "_lock", "_set_timer")

    def __init__(self, set_timer: Callable[[float], None]) -> None:
        self._set_timer = set_timer
        self._at = NEVER
        self._lock = Lock()

    @property
    def at(self) -> float | None:
        """When the timer fires; None if it is not armed."""
        return None if self._at == NEVER else self._at

    def arm(self, when: float | None) -> bool:
        """Fire at ``when`` or earlier; None changes nothing.

        Returns whether ``set_timer`` was called: not if the timer fires by then anyway.
        """
        with self._lock:
            if when is None or when >= self._at:
                return False
            self._set(when)
            return True

    def _set(self, when: float) -> None:
        self._set_timer(when)
        # Last: if ``set_timer`` fails, later instants must still be set.
        self._at = when

    def fired(self, now: float) -> bool:
        """Return whether the instant has come; to be called by the underlying timer.

        If nothing is armed, return False; if the call is early, set the timer again and return False.
        Reading the queue all the same does no harm.
        """
        with self._lock:
            if now < self._at:
                if self._at != NEVER:
                    self._set(self._at)
                return False
            self._at = NEVER
            return True
