"""When a transport works: blocking in ``drain_events``, or on the event loop of a Celery worker."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kombu.asynchronous import get_event_loop, set_event_loop

from django_mq.integrations.celery.deliveries import told_to_stop
from django_mq.notifications.base import ANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.consumer.runtime import ConsumerRuntime
    from django_mq.integrations.celery.deliveries import TransportConsumers


class LoopDriver:
    """Drives the deliveries of one transport."""

    def __init__(self, deliveries: TransportConsumers) -> None:
        self._deliveries = deliveries
        # The worker's event loop, and its timers: for polls, and for what is due before the next poll.
        self._loop: Any = None
        self._poll_timer: Any = None
        self._alarm: Any = None
        self._alarm_at = 0.0
        # Whether a message was delivered that the pool may not have written to its processes yet.
        self._pool_is_next = False

    @property
    def _runtime(self) -> ConsumerRuntime:
        return self._deliveries.runtime

    # Blocking.

    def drain(self, timeout: float | None) -> None:
        """Deliver one message, as Kombu's own loops count. Raises TimeoutError if none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._deliveries.work_once():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._wait(left)

    def _wait(self, left: float | None) -> None:
        if not self._settle_down():
            return
        waits = (left, self._runtime.wait_seconds(), self._deliveries.buffer.stale_seconds())
        self._runtime.wait(min(seconds for seconds in waits if seconds is not None))
        self._hear()
        self._poll()

    def _settle_down(self) -> bool:
        return self._runtime.settle_down(self._runtime.fetcher.queues, able=self._deliveries.able)

    def _hear(self) -> None:
        topics = self._runtime.hear()
        if ANY in topics or any(topic.startswith("v:") for topic in topics):
            self._deliveries.look_at_transient()

    def _poll(self) -> None:
        if self._runtime.poll():
            self._deliveries.look_at_transient()

    # On the worker's event loop.

    def enter(self, loop: Any) -> None:
        """Watch the wake, work before every wait of the loop, and poll by a timer."""
        self._loop, self._deliveries.on_loop = loop, True
        _left.pop(loop, None)
        # After a pause of the process no task begins that another worker may have: SessionLost ends the loop.
        before_events(loop, self._deliveries.session.ensure_certain)
        loop.add_reader(self._runtime.wake.fileno(), self._on_wake)
        loop.on_tick.add(self._on_tick)
        self._poll_timer = loop.call_repeatedly(self._runtime.poll_interval_seconds, self._poll)

    def _on_wake(self) -> None:
        """Claim at once: the pool's tick follows in the loop's next turn, before the loop waits."""
        self._hear()
        if not told_to_stop() and self._deliveries.work():
            self._pool_is_next = True

    def _on_tick(self) -> None:
        """Work before a wait of the loop: in constant time if there is nothing to do."""
        if self._deliveries.work() or self._deliveries.buffer.ready:
            # The pool writes to its processes after its own tick, which may have run before this one (ticks are a
            # set): without another turn the task waits for the next event.
            self._pool_is_next = True
            self._turn_again()
        elif self._pool_is_next:
            # The pool writes after this tick: registering as idle in Redis waits for the next turn.
            self._pool_is_next = False
            self._turn_again()
        elif not self._settle_down():
            self._turn_again()
        else:
            self._arm_timer()

    def _turn_again(self) -> None:
        self._runtime.wake.set("turn")

    def _arm_timer(self) -> None:
        """Make the loop turn when something is due before the next poll. There is one timer at a time.

        A timer for a far-off due time would stay in the loop's heap until then, even if it is cancelled.
        """
        times = [self._runtime.seconds_until_due(), self._deliveries.buffer.stale_seconds()]
        seconds = min((seconds for seconds in times if seconds is not None), default=None)
        if seconds is None or seconds > self._runtime.poll_interval_seconds or self._loop is None:
            return
        when = time.monotonic() + seconds
        if self._alarm is not None and when >= self._alarm_at:
            return
        self._cancel_alarm()
        self._alarm, self._alarm_at = self._loop.call_later(seconds, self._on_time), when
        # The loop has chosen how long it waits before it ticks.
        self._turn_again()

    def _cancel_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()

    def _on_time(self) -> None:
        self._alarm = None  # the loop turns, which is all that is needed

    def leave(self) -> None:
        """Leave the loop, which does not forget its ticks by itself: a dead transport must not go on."""
        loop, self._loop, self._deliveries.on_loop = self._loop, None, False
        if loop is None:
            return
        after_events(loop)
        _left[loop] = threading.get_ident()
        loop.on_tick.discard(self._on_tick)
        self._cancel_alarm()
        loop.remove_reader(self._runtime.wake.fileno())
        if self._poll_timer is not None:
            self._poll_timer.cancel()


# The event loops that workers of this process have entered and left.
#
# Kombu before 5.6 keeps the loop of a worker that has ended, and a second worker of the process, as tests have
# them, would enter it. That loop turns with the timer of the first worker: what the second one schedules, such as
# tasks with an ETA, would never begin.


class _Poller:
    """A loop's poller that calls a function after each wait."""

    def __init__(self, poller: Any, before: Callable[[], None]) -> None:
        self.poller = poller
        self._before = before

    def poll(self, timeout: float | None = None) -> Any:
        events = self.poller.poll(timeout)
        self._before()
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self.poller, name)


# Each with the thread that has left it.
_left: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def before_events(loop: Any, function: Callable[[], None]) -> None:
    """Call the function after each wait of the loop, during which the process may have been suspended."""
    after_events(loop)
    loop.poller = _Poller(loop.poller, function)


def after_events(loop: Any) -> None:
    """Undo ``before_events``."""
    if isinstance(loop.poller, _Poller):
        loop.poller = loop.poller.poller


def forget_left() -> None:
    """Let a new worker make a loop of its own if an earlier worker has left the present one."""
    if get_event_loop() in _left:
        set_event_loop(None)


def has_left() -> bool:
    """Whether this is the thread of a worker that has left its loop."""
    return threading.get_ident() in _left.values()
