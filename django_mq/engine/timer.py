"""One timer for whatever is to happen next.

Artemis sets a timer for every distinct millisecond at which something is due. Here there is
one, for the earliest instant; whoever it wakes looks for all that is due, and arms it anew::

    if timer.fired(now):
        queue.promote(now)
        timer.arm(queue.next_due())

No wake-up is lost. ``fired`` unregisters the instant before anybody looks, so what is put in
behind the looker's back arms the timer by itself; who puts something in arms afterwards.
"""

from collections.abc import Callable
from threading import Lock

from django_mq.engine.timeline import NEVER


class Timer:
    """The instant of the next wake-up, on the clock of ``now``. Safe from any thread.

    ``set_timer`` is called with the instant, which may have passed already, and has ``fired``
    called then; it replaces what it set before. It is called under the timer's lock, so that
    of two instants the earlier cannot be replaced by the later; it must not call the timer.
    """

    __slots__ = ("_at", "_lock", "_set_timer")

    def __init__(self, set_timer: Callable[[float], None]) -> None:
        self._set_timer = set_timer
        self._at = NEVER
        self._lock = Lock()

    @property
    def at(self) -> float | None:
        """When it will fire; None if it is not armed."""
        return None if self._at == NEVER else self._at

    def arm(self, when: float | None) -> bool:
        """See to a wake-up at ``when``, or earlier; None needs none.

        Answers whether the underlying timer was set: not if it fires by then anyway.
        """
        with self._lock:
            if when is None or when >= self._at:
                return False
            self._set(when)
            return True

    def _set(self, when: float) -> None:
        self._set_timer(when)
        # Afterwards: an instant that could not be set must not keep later ones from being set.
        self._at = when

    def fired(self, now: float) -> bool:
        """To be called by the underlying timer; answers whether it is time to look.

        It is not if nothing is armed, or if the wake-up came early: then the timer is set
        again. Looking all the same does no harm.
        """
        with self._lock:
            if now < self._at:
                if self._at != NEVER:
                    self._set(self._at)
                return False
            self._at = NEVER
            return True
