"""The native worker: session, listener, feeder, prefetch and pool, driven by one thread.

Start: declare queues, open the session, listen. Each turn: settle and
claim, offer, wait. Stop: no more claims, give back what was not started, wait for what runs, write the
last settlements, close the session.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.feeding import MARKER_SECONDS, Polls, Standby, poll_seconds
from django_mq.delivery.handlers import carries_task, check_transactions, is_over, pause_seconds
from django_mq.delivery.policies import Admission, Policies
from django_mq.delivery.pool import Pool
from django_mq.delivery.prefetch import Dispatcher, prefetch_of
from django_mq.delivery.session import Driver, Session
from django_mq.engine.conduct import Conduct
from django_mq.errors import HandlersHang, SessionLost, StoreError, StoreUnavailable
from django_mq.notifications.base import WORKERS_TOPIC, Wake, queue_topic
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.delivery.executing import Attempt
    from django_mq.delivery.handlers import Handler
    from django_mq.stores.records import Claimed, ConsumerInfo, Instructions, Settlement

logger = logging.getLogger("django_mq.delivery")

#: First and longest pause between two tries to reach the database, in seconds.
FIRST_PAUSE_SECONDS = 0.1
OUTAGE_CAP_SECONDS = 5.0
#: The wake's topic when credit came back: no reason to look if nothing was left behind.
CREDIT = "credit"
#: Time between two looks at running time limits, in seconds.
WATCH_SECONDS = 0.25


class Worker:
    """Consumes queues with their handlers until told to stop."""

    def __init__(
        self, handlers: Iterable[Handler], *, threads: int, using: str | None = None, name: str = ""
    ) -> None:
        self._alias = using or conf.load().DATABASE
        self._name = name
        self._handlers = list(handlers)
        check_transactions(self._handlers, self._alias)
        self.wake = Wake()
        self._policies = Policies(dict.fromkeys(handler.queue for handler in self._handlers))
        self._listener = notifier().listen(self.wake)
        self._stopping = False
        self._leaving = False
        self._waiting = False
        self._polls = Polls()
        self._marker: int | None = None
        # Set when the worker ends because of handlers that do not end.
        self._exhausted: HandlersHang | None = None
        # Queues in which a Celery task was found, to say so once.
        self._queues_with_tasks: set[str] = set()
        self._timed = any(handler.time_limit_seconds is not None for handler in self._handlers)
        # Lost sessions of which something still runs.
        self._late: list[Session] = []
        self._begin()
        self._pool = Pool(
            threads,
            next_attempt=self._next_attempt,
            on_done=self._on_done,
            on_idle=self._on_idle,
        )

    def _begin(self) -> None:
        """Start with a new session and nothing prefetched: at first, and after a session was lost."""
        self.dispatcher = Dispatcher(prefetch_of(self._handlers, self._policies.of))
        self.session = Session(
            self._alias,
            kind="native",
            wake=self.wake,
            name=self._name,
            queues=self.dispatcher.queues,
            credit=sum(handler.credit for handler in self._handlers),
            driver=Driver(
                describe=partial(self._describe, self.dispatcher),
                measure=partial(self._measure, self.dispatcher),
                obey=self._obey,
            ),
        )
        self._shift = self.dispatcher, self.session
        self._admission = Admission(self.session, self._policies)
        self._feeder = self.session.feeder
        self._standby = Standby(
            self._listener, self._feeder, priority=max(handler.priority for handler in self._handlers)
        )

    def _describe(self, dispatcher: Dispatcher) -> tuple[ConsumerInfo, ...]:
        """What the operator sees of the consumers: a lost session has none any more."""
        if dispatcher is not self.dispatcher:
            return ()
        if self.session.quiet:
            return tuple(replace(info, state="stopping") for info in self.dispatcher.describe())
        told = self._standby.told
        return tuple(
            replace(info, state="notified") if info.queue_name in told else info
            for info in self.dispatcher.describe()
        )

    def _measure(self, dispatcher: Dispatcher) -> tuple[int | None, int | None]:
        """Count the slots: those that a lost session still uses are the new session's."""
        return (self._pool.running, self._pool.slots) if dispatcher is self.dispatcher else (None, None)

    def _obey(self, told: Instructions) -> None:
        """Take what an operator says, in the keeper's thread; being quiet is seen to at each claim."""
        self.dispatcher.resize(told.credit)
        self.session.credit = self.dispatcher.credit()
        if told.conduct is Conduct.STOP:
            self.stop()
        self._pool.wake()
        self.wake.set(CREDIT)

    def _next_attempt(self) -> Attempt | None:
        if not self.session.certainty.holds:
            return None  # the heartbeat confirms the lease, and then wakes the pool
        # Asked anew each time: a lost session is replaced together with what was prefetched for it.
        dispatcher, session = shift = self._shift
        if session.lost:
            return None
        attempt = dispatcher.next_attempt()
        if attempt is not None:
            attempt.owner = shift
            attempt.lease = session.lease
        return attempt

    def _on_done(self, attempt: Attempt, settlement: Settlement) -> None:
        dispatcher, session = attempt.owner
        dispatcher.finish(attempt)
        if attempt.settled:
            session.let_go(attempt.claimed)
        else:
            session.settle(settlement)
        # Waking costs a system call: only a driver that sleeps needs it, and only for a batch.
        # Of a group, or where few may be in flight, the next one waits for this very settlement.
        if self._waiting and (self._feeder.ruled or len(self.session.settlements) >= self._refill_of(attempt)):
            self.wake.set(CREDIT)

    def _on_idle(self) -> None:
        if self._waiting and (self._feeder.backlog or self.session.settlements or self._standby.at_work):
            self.wake.set(CREDIT)

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the worker to stop; from a signal handler or another thread.

        It waits for what is running, unless ``at_once``: then that, too, is given back.
        """
        self._leaving = self._leaving or at_once
        self._stopping = True
        self.wake.set()

    @property
    def unfinished(self) -> int:
        """How many messages are being handled, or about to be."""
        sessions = [*self._late, self.session]
        return sum(session.held - len(session.settlements) for session in sessions)

    # The loop.

    def run(self, *, until_empty: bool = False) -> None:
        """Work until ``stop`` is called, or, with ``until_empty``, until nothing is ready and nothing runs.

        Raises a StoreError that will not go away by itself if that is the first answer of the database:
        the site is not set up. Later the worker says so, and tries again after a pause. Raises HandlersHang,
        in the end, if too many handlers still run after they were given up.
        """
        self._listener.subscribe([WORKERS_TOPIC, *map(queue_topic, self.dispatcher.queues)])
        pause, has_worked = FIRST_PAUSE_SECONDS, False
        try:
            while not self._stopping:
                try:
                    if not self.turn():
                        if until_empty and self._idle() and not self.session.quiet:
                            if self._feeder.sure:
                                break
                            self._feeder.look(whole=True)
                        else:
                            self._wait()
                    pause, has_worked = FIRST_PAUSE_SECONDS, True
                except SessionLost:
                    logger.warning("The session was lost; beginning anew")
                    self._begin_anew()
                except StoreError as error:
                    if not has_worked and not isinstance(error, StoreUnavailable):
                        raise
                    self._recover(error, pause)
                    pause = min(pause * 2, OUTAGE_CAP_SECONDS)
        finally:
            self._shut_down()
        if self._exhausted is not None:
            raise self._exhausted

    def _recover(self, error: StoreError, pause_seconds: float) -> None:
        """Say what is wrong, once, and wait; whatever wakes the worker meanwhile does not hurry it."""
        if isinstance(error, StoreUnavailable):
            logger.warning("The database is away, trying again in %.1f s: %s", pause_seconds, error)
        else:
            logger.error("The database refuses, trying again in %.1f s: %s", pause_seconds, error)
            self.session.flush()  # finds the settlement that it is about, if it is about one
        self.session.store.close()  # the next statement opens a new connection
        end = time.monotonic() + pause_seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            self.wake.wait(left)

    def turn(self) -> bool:
        """Watch time limits, then settle and claim; return whether anything was claimed. Raises StoreError."""
        if self.session.lost:
            raise SessionLost
        if self._feeder.restless:
            self._policies.refresh_if_due(self.session.store)
        self._admission.ask_if_due()
        if self._timed:
            self._give_up_overdue()
        return self._claim() > 0

    def _give_up_overdue(self) -> None:
        for attempt, settlement in self._pool.abandon_overdue():
            self._on_done(attempt, settlement)
        self._end_if_exhausted()

    def _end_if_exhausted(self) -> None:
        """Stop where more abandoned threads would only take more memory and connections."""
        if self._pool.exhausted and self._exhausted is None:
            self._exhausted = HandlersHang(
                f"{self._pool.abandoned} handlers still run after they were given up, and Python cannot end their"
                " threads; the worker ends in order to be restarted."
            )
            logger.error("%s", self._exhausted)
            self.stop()

    def _claim(self) -> int:
        wanted = self._hungry()
        self._feeder.restrict(tuple(wanted), wanted)
        refills = self.dispatcher.refills()
        claimed = self._feeder.pump(credit=sum(wanted.values()), slots=self._slots(), refill=refills)
        self.dispatcher.offer(message for message in claimed if self._is_for_a_handler(message))
        if claimed:
            # With more to claim, the driver is in as much of a hurry as the threads.
            self._pool.wake(patient=not self._feeder.backlog)
        return len(claimed)

    def _is_for_a_handler(self, message: Claimed) -> bool:
        """Return whether a handler is to get the message; settle it if not."""
        if carries_task(message):
            self._leave_to_celery(message)
        elif is_over(message):
            self.session.expire(message)
        else:
            return True
        return False

    def _leave_to_celery(self, message: Claimed) -> None:
        """Give a Celery task back, uncounted, for a while in which a Celery worker may claim it."""
        self.session.release(message, delay_seconds=pause_seconds(message, datetime.now(UTC)))
        if message.queue_name not in self._queues_with_tasks:
            self._queues_with_tasks.add(message.queue_name)
            logger.warning(
                "Queue %r holds Celery tasks, first %r: this worker leaves them to a Celery worker"
                " of that queue, or to an operator who moves them",
                message.queue_name,
                message.type,
            )

    def _hungry(self) -> dict[str, int]:
        """Return the queues to claim from, and how much of each; none while told to be quiet."""
        return {} if self.session.quiet else self.dispatcher.hungry()

    def _slots(self) -> int:
        """How many more messages could begin at once."""
        return max(0, self._pool.free - self._buffered())

    def _buffered(self) -> int:
        return max(0, self.session.held - self._pool.running - len(self.session.settlements))

    def _refill_of(self, attempt: Attempt) -> int:
        return self.dispatcher.refill_of(attempt.claimed.queue_name)

    # Waiting.

    def _wait(self) -> None:
        self._waiting = True
        # Asked only now: whoever finished before saw nobody to wake.
        if not self._may_claim() and self._settle_down():
            self.wake.wait(self._wait_seconds())
        self._waiting = False
        topics = self.wake.take_topics()
        if WORKERS_TOPIC in topics:
            self.session.renew_soon()
        self._standby.hear(topics)
        self._poll()

    def _settle_down(self) -> bool:
        wanted = self._hungry()
        return self._standby.settle_down(tuple(wanted), able=bool(wanted) and self._slots() > 0)

    def _may_claim(self) -> bool:
        """Whether messages were left behind, and the credit for them is back."""
        if not self._feeder.backlog or self.session.quiet:
            return False
        wanted = self._hungry()
        self._feeder.restrict(tuple(wanted), wanted)
        if self._feeder.has_gathered(sum(wanted.values()), self.dispatcher.refills()):
            return True
        return not (self._pool.running or self._buffered())

    def _wait_seconds(self) -> float:
        waits = [self._polls.seconds(self._poll_seconds(), self._looked_at())]
        if self.session.store.features.notices_changes:
            waits.append(MARKER_SECONDS)
        if self._timed:
            waits.append(WATCH_SECONDS)
        if self.session.settlements:
            waits.append(0.01)
        times = self._feeder.seconds_until_due(), self._standby.seconds_until_question()
        return min([*waits, *(seconds for seconds in times if seconds is not None)])

    def _poll_seconds(self) -> float:
        return poll_seconds(self.session.store, self._listener)

    def _looked_at(self) -> float:
        """When the keeper has looked in our place, which counts while hints are heard."""
        return self.session.looked_at if self._listener.connected else 0.0

    def _poll(self) -> None:
        marker = self.session.store.change_marker()
        if marker is not None and marker != self._marker:
            self._marker = marker
            self._feeder.look()
        if self._polls.due(self._poll_seconds(), self._looked_at()):
            self._feeder.look()

    def _idle(self) -> bool:
        return not self._pool.running and not self._buffered() and not self.session.settlements

    # Ends.

    def _begin_anew(self) -> None:
        """Open another session; the lost one gives back what was not begun, and settles what still runs."""
        lost, unstarted = self.session, self.dispatcher.empty()
        self._begin()
        lost.retire(unstarted)
        self._late = [session for session in [*self._late, lost] if not session.over]

    def _shut_down(self) -> None:
        self._standby.leave()
        self._pool.stop()
        for claimed in self.dispatcher.empty():
            self.session.release(claimed)
        self.session.flush()
        while self.unfinished and not self._leaving:
            self.wake.wait(WATCH_SECONDS)
            self._give_up_overdue()
            self.session.flush()
        self._pool.disown()
        self._listener.close()
        for session in [*self._late, self.session]:
            session.close()
        self.wake.close()
