"""What a test does with the queues."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from django_mq import conf, process
from django_mq.delivery.codecs import BrowsedMessage
from django_mq.delivery.consumer.handlers import carries_task, discover
from django_mq.delivery.operator.browser import browsed
from django_mq.delivery.validation import existing
from django_mq.engine.states import State
from django_mq.errors import NoHandler
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from django_mq.testing.drain import Drain
from django_mq.testing.drained import Drained
from django_mq.testing.transactions import as_committed

if TYPE_CHECKING:
    import unittest
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from types import TracebackType

    from django_mq.delivery.codecs import DecodedMessage, ReceivedMessage
    from django_mq.stores.records import Browsed

    class Base(unittest.TestCase):
        """What the mixin is mixed with."""
else:
    Base = object


class QueueTester:
    """Drain the queues of a test, look at them, and move their clock. The end of its block puts the clock right.

    ``using`` is the database alias of the queues, as in ``publish``.
    """

    def __init__(self, *, using: str | None = None) -> None:
        self._using = using
        #: What drains have taken, by row id.
        self._taken: dict[int, ReceivedMessage] = {}
        self._undone_at_end = ExitStack()

    def __enter__(self) -> QueueTester:
        process.reset()
        self._undone_at_end.callback(process.reset)
        self._undone_at_end.callback(setattr, clock, "offset", clock.offset)
        if "celery" in sys.modules:
            from django_mq.testing.tasks import moved_celery  # noqa: PLC0415 - only projects with Celery import it

            self._undone_at_end.enter_context(moved_celery())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._undone_at_end.close()

    @property
    def _alias(self) -> str:
        return self._using or conf.load().DATABASE

    def drain(
        self,
        queue: str | Iterable[str] | None = None,
        *,
        ahead: timedelta | float = 0,
        limit: int = 1000,
        raise_errors: bool = True,
    ) -> Drained:
        """Run what is ready now, by the rules of the queues, and what that publishes; return the attempts.

        ``queue`` names the queue, or several; without it, all that have handlers are drained. With ``ahead`` (a
        timedelta, or seconds), the clock moves on by so much, from one due message to the next: scheduled messages
        run, and those that wait for their backoff.

        In a ``TestCase``, functions of ``on_commit`` are called as after a commit: at first those of the test.

        What a handler raises is raised here when its message is settled, except ``Reject``, ``Release``,
        ``Decline`` and ``Retry``. With ``raise_errors=False`` only the attempts have the errors.

        Raises DrainNeverEnds after ``limit`` attempts, NoHandler for a queue without a handler,
        WorkerInTransaction in a transaction of the test, and ValueError for a time or a limit that cannot be.
        """
        handlers = discover()
        if not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit is {limit!r}; use a whole number, 1 or more.")
        ahead = _checked(ahead)
        given = queue if isinstance(queue, Iterable) and not isinstance(queue, str) else [queue]
        names = None if queue is None else [existing(name) for name in given]
        for name in names or ():
            self._check_consumed(name, handlers)
        drain = Drain(shared_store(self._alias), handlers, names, limit=limit, raise_errors=raise_errors)
        process.reset()  # the test may have changed a queue
        try:
            with as_committed():
                drain.run(ahead)
        except Exception as error:
            # The frames of the drain would stand between the test and the handler.
            if drain.raised is not None and drain.raised[0] is error:
                raise error.with_traceback(drain.raised[1])  # noqa: B904 - it is the same error
            raise
        finally:
            self._taken |= drain.taken
        return Drained(drain.attempts)

    def _check_consumed(self, name: str, handlers: Mapping[str, object]) -> None:
        """Raise NoHandler unless the queue has handlers, or is one of Celery, or has tasks."""
        if name in handlers:
            return
        if "celery" in sys.modules:
            from django_mq.testing.tasks import consumed  # noqa: PLC0415 - only projects with Celery import it

            if name in consumed() or any(map(carries_task, self._browsed(name, State.READY, State.SCHEDULED))):
                return
        raise NoHandler(f"No handler is registered for queue {name!r}; decorate one with @consumer.")

    def published(self, queue: str) -> list[DecodedMessage]:
        """Return what was published to the queue, in that order: what is there, and what drains have taken.

        Raises UnknownQueue.
        """
        waiting = {stored.id: BrowsedMessage(stored) for stored in self._browsed(queue, *State)}
        taken = {number: message for number, message in self._taken.items() if message.queue == queue}
        return [message for _, message in sorted((taken | waiting).items())]

    def dead_letters(self, queue: str) -> list[BrowsedMessage]:
        """Return the dead letters that have stayed in the queue. Raises UnknownQueue."""
        return [BrowsedMessage(stored) for stored in self._browsed(queue, State.DEAD)]

    def _browsed(self, queue: str, *states: State) -> Iterator[Browsed]:
        return browsed(queue, states=states, using=self._alias)

    def move_clock(self, by: timedelta | float) -> None:
        """Move the clock of the queues on, by a timedelta or by seconds. Nothing runs before the next drain."""
        clock.offset += _checked(by)

    def now(self) -> datetime:
        """Return the time by the clock of the queues."""
        return clock.now()


def _checked(time: timedelta | float) -> timedelta:
    try:
        span = time if isinstance(time, timedelta) else timedelta(seconds=time)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{time!r} is no time; use a timedelta, or a number of seconds.") from None
    if span < timedelta(0):
        raise ValueError(f"The clock of the queues only moves on, not by {time}.")
    return span


class QueueTestMixin(Base):
    """Give a ``TestCase`` the queues as ``self.mq``; name it before ``TestCase``."""

    @cached_property
    def mq(self) -> QueueTester:
        """The queues of this test."""
        return self.enterContext(QueueTester())
