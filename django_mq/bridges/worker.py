"""The worker of a bridge: claims messages of its queues in pages, publishes them, and settles what is confirmed.

It is driven by one thread, as a worker of handlers is, and has a session of its own. While the broker is away or
blocked, it claims nothing: the messages wait in the queue, where their age is seen, and no attempt is counted.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from django_mq import conf
from django_mq.bridges.links import open_link, routing_key_of
from django_mq.bridges.outgoing import outgoing, tells_its_end
from django_mq.bridges.record import LinkRecord
from django_mq.delivery.consumer.lease import Driver, Workload
from django_mq.delivery.consumer.runtime import ConsumerRuntime
from django_mq.delivery.consumer.worker import Emptiness, ExclusiveQueues, WorkerLoop
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.ends import RunOutcome
from django_mq.engine.decisions.forwarding import (
    DECISIONS,
    PAGES,
    BrokerAnswer,
    Flights,
    is_given_up,
    pause_after,
    reason_of,
)
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import (
    BridgeAway,
    ConfigurationError,
    CorruptMessage,
    SessionLost,
    UnfitForBridge,
)
from django_mq.stores import queue_records
from django_mq.stores.records import ConsumerInfo, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from django_mq.bridges.links import Link
    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.bridges import Bridge
    from django_mq.stores.records import Claimed, WorkerCommand

logger = logging.getLogger("django_mq.bridges")

#: The longest wait for an answer of the broker while there may be something to claim, in seconds.
GLANCE_SECONDS: Final = 0.005
#: How long a worker waits that the broker has blocked.
BLOCKED_SECONDS: Final = 0.1
#: The longest wait of an idle worker: the connection must say that it lives.
IDLE_SECONDS: Final = 5.0
#: How long a worker that ends waits for answers.
END_SECONDS: Final = 5.0


class BridgeWorker:
    """Empties queues into another broker until told to stop."""

    def __init__(self, bridge: Bridge, queues: Iterable[str], *, using: str | None = None, name: str = "") -> None:
        self.bridge = bridge
        self._alias = using or conf.load().DATABASE
        self._queues = tuple(queues)
        self._name = name
        self._loop = WorkerLoop(self, self._alias)
        self._link: Link | None = None
        self._failures = 0
        self._retry_at = 0.0
        #: How many connections were lost: after each, another address of the broker comes first.
        self._turn = 0
        #: Why the broker takes no messages now, although it answers; blank if it does.
        self._not_now = ""
        #: When the oldest message on the way was sent, or the last answer came, on the monotonic clock.
        self._heard_at = 0.0
        #: When the broker last took messages, or was away, on the monotonic clock.
        self._open_at = 0.0
        #: Whether it waits for a broker that is away.
        self._is_patient = True
        #: Why the worker has ended although messages may wait; blank if it has not.
        self.given_up = ""
        self._late: list[Session] = []
        self.record = LinkRecord(self._alias, bridge)
        self._open_shift()

    def _open_shift(self) -> None:
        """Begin a new session with nothing claimed."""
        self.runtime = ConsumerRuntime(
            self._alias,
            kind="bridge",
            queues=self._queues,
            in_order=frozenset(self._queues),
            driver=Driver(
                name=lambda: self._name,
                describe=self._describe,
                on_command=self._on_command,
                loop=lambda: self._loop.turns,
                leaves=lambda: self._loop.is_stopping,
            ),
        )
        self.session, self.wake = self.runtime.session, self.runtime.wake
        self._admission = ExclusiveQueues(self.session)
        self._flights: Flights[Claimed] = Flights(self.bridge.options.in_flight, self._is_strict)

    def _is_strict(self, queue: str) -> bool:
        """Whether the messages of a queue go one after the other, in any group."""
        return queue_records.last_read(self._alias, queue).strict

    def _describe(self) -> Workload:
        """Return what the operator sees."""
        most, held = PAGES * self.bridge.options.in_flight, len(self._flights)
        state = "waiting" if self._link is not None and not self._link.is_blocked else "still"
        consumers = tuple(
            ConsumerInfo(queue_name=name, credit_limit=most, credit_used=held, state=state)
            for name in self._queues
        )
        return Workload(consumers=consumers, credit=most, busy=min(held, most), slots=most)

    def _on_command(self, told: WorkerCommand) -> None:
        if told.mode is WorkerMode.STOP:
            self.stop()

    # What the process knows of its workers.

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the worker to stop; any thread may call this. It waits a moment for answers, unless ``at_once``."""
        self._loop.stop(at_once=at_once)

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._loop.is_stopping

    @property
    def is_live(self) -> bool:
        """Whether its loop turns."""
        return self._loop.is_live

    @property
    def is_ready(self) -> bool:
        """Whether it claims. A broker that is away does not make the process unfit."""
        return self._loop.is_ready

    @property
    def running(self) -> int:
        """How many messages are on the way."""
        return self._flights.on_way

    # The loop.

    def run(self, *, until_empty: bool = False) -> None:
        """Work until ``stop`` is called, or, with ``until_empty``, until nothing is ready."""
        self.run_until(Emptiness(1) if until_empty else None)

    def run_until(self, emptiness: Emptiness | None) -> None:
        """Work until ``stop`` is called, or until all workers that share the ``emptiness`` find nothing.

        With an ``emptiness``, it also ends when its broker is away, or takes nothing: ``given_up`` then says so.
        """
        self._is_patient = emptiness is None
        self._loop.run_until(emptiness)

    def _gives_up(self) -> bool:
        """Return whether to end because the broker is away, or takes nothing; ``given_up`` then has the reason."""
        link, most = self._link, self.bridge.options.confirm_seconds
        if link is None or not link.is_blocked:
            self._open_at = time.monotonic()
        blocked = time.monotonic() - self._open_at
        if not is_given_up(0 if link is not None else self._failures, blocked, most):
            return False
        words = f"has taken no messages for {most:g} seconds" if link is not None else "cannot be reached"
        known = f": {self.record.error}" if self.record.error and link is None else ""
        self.given_up = f"The broker of the bridge {self.bridge.name!r} {words}{known}"
        return True

    def has_work(self) -> bool:
        """Return whether messages are on the way, or the broker is away."""
        return self._link is None or bool(self._flights)

    def has_asked_all(self) -> bool:
        """Return whether its last claim asked all its queues: each claim does."""
        return True

    def turn(self) -> bool:
        """Send what may be sent, take the answers, settle and claim; return whether anything happened."""
        self._loop.turns.turn()
        if self.session.lost:
            raise SessionLost
        queue_records.know(self.session.store, self._queues, declare)
        self.runtime.recall(self._give_back_of)
        self._admission.ask_if_due()
        self._connect_if_due()
        claimed = self._claim()
        answered = self._exchange(0.0 if claimed else GLANCE_SECONDS)
        self.record.write_if_due(self.session, self._link)
        if not self._is_patient and self._gives_up():
            self.stop()
        return bool(claimed or answered or self._flights.on_way)

    def _claim(self) -> bool:
        """Claim a page if there is room for one, and settle. Raises StoreError."""
        opened = self.session.id is None or self.session.may_begin
        is_open = self._link is not None and not self._link.is_blocked and not self._not_now
        credit = self._flights.credit() if is_open and opened else 0
        # A claim of a few messages takes as long as one of many: it waits while there is enough to do.
        refill = PAGES // 2 * self.bridge.options.in_flight
        claimed = self.runtime.claim(
            dict.fromkeys(self._queues, credit) if credit else {},
            credit=credit,
            slots=credit if credit >= refill or not self._flights.on_way else 0,
            refill=refill,
        )
        live = []
        for message in claimed:
            if message.expired:
                self.session.expire(message)
            else:
                live.append(message)
        self._flights.offer(live)
        return bool(claimed)

    # The broker.

    def _connect_if_due(self) -> None:
        if self._link is not None or time.monotonic() < self._retry_at:
            return
        try:
            self._link = open_link(self.bridge, self._queues, self._turn)
        except (BridgeAway, ConfigurationError) as error:
            self._fail(str(error))
        else:
            if self._failures:
                logger.info("The bridge %r has reached its broker again", self.bridge.name)
            self._heard_at = time.monotonic()
            self.record.connected()
            self.runtime.fetcher.look(full_scan=True)

    def _fail(self, words: str) -> None:
        """Note that the broker cannot be reached, and when to try again."""
        if not self._failures:
            logger.warning("The bridge %r cannot use its broker, and tries again: %s", self.bridge.name, words)
        self._failures += 1
        self._retry_at = time.monotonic() + pause_after(self._failures, self.bridge.options.pause_seconds)
        self.record.failed(words)

    def _exchange(self, seconds: float) -> bool:
        """Send what may be sent, and settle what was answered; return whether something was."""
        link = self._link
        if link is None:
            return False
        try:
            if self.session.may_begin and not self._not_now:
                self._send(link)
            answers = link.answers(
                BLOCKED_SECONDS if link.is_blocked else seconds if self._flights.on_way else 0.0
            )
            for answer, tag, words, multiple in answers:
                for own_tag, message in self._flights.answered(tag, multiple=multiple):
                    link.forget(own_tag)
                    self._take(message, answer, words)
            self._watch(link, bool(answers))
        except BridgeAway as error:
            self._lose(str(error), by_message=error.by_message)
            return True
        if any(each.answer is BrokerAnswer.CONFIRMED for each in answers):
            self._failures = 0
        return bool(answers)

    def _send(self, link: Link) -> None:
        """Publish what may be on the way. Raises BridgeAway."""
        while not link.is_blocked and (message := self._flights.next()) is not None:
            try:
                prepared = outgoing(message)
                if not self._flights.on_way:
                    self._heard_at = time.monotonic()
                tag = link.publish(prepared, routing_key_of(self.bridge, message.queue_name))
            except (CorruptMessage, UnfitForBridge) as error:
                self._settle(message, BrokerAnswer.REFUSED, f"{type(error).__name__}: {error}")
                self._flights.ended(message)
            except BridgeAway:
                self.session.release(message)
                raise
            else:
                self._flights.sent(tag, message)

    def _watch(self, link: Link, has_answered: bool) -> None:
        """Give the connection up if the broker takes nothing, or was silent for too long. Raises BridgeAway."""
        if self._not_now and not self._flights.on_way:
            link.close()
            raise BridgeAway(self._not_now)
        now = time.monotonic()
        if has_answered or not self._flights.on_way or link.is_blocked:
            self._heard_at = now
        elif now - self._heard_at > self.bridge.options.confirm_seconds:
            link.close()
            raise BridgeAway(f"No confirm has come for {self.bridge.options.confirm_seconds:g} seconds.")

    def _take(self, message: Claimed, answer: BrokerAnswer, words: str) -> None:
        """Do with a message what the broker's answer says."""
        if answer is BrokerAnswer.NOT_NOW:
            # It goes back before those of its group that wait, which are not sent any more.
            self._not_now = words
            self.session.release(message)
        else:
            self._settle(message, answer, words)

    def _settle(self, message: Claimed, answer: BrokerAnswer, words: str = "") -> None:
        reason = reason_of(answer, self.bridge.name, words) if words else ""
        settlement = Settlement.of(message, DECISIONS[answer], reason)
        if answer is BrokerAnswer.CONFIRMED and self.bridge.options.results and tells_its_end(message):
            settlement.outcome = RunOutcome.FORWARDED
        self.session.settle(settlement)
        self.record.count(answer, words)

    def _lose(self, words: str, *, by_message: bool) -> None:
        """Give back all that is not confirmed: the broker is away, and the messages wait in their places."""
        self._link, self._not_now = None, ""
        back, blamed = self._flights.lost(by_message=by_message)
        if blamed is not None:
            self._settle(blamed, BrokerAnswer.REFUSED, words)
        for message in back:
            self.session.release(message)
        if by_message:
            logger.warning("The bridge %r was closed because of a message: %s", self.bridge.name, words)
            self.record.failed(words)
        else:
            self._turn += 1
            self._fail(words)

    def _give_back_of(self, queues: AbstractSet[str]) -> None:
        """Give back what is not on the way of queues that are paused."""
        for message in self._flights.withdrawn(queues):
            self.session.release(message)

    # Waiting.

    def wait(self, *, is_timed: bool = False) -> None:  # noqa: ARG002 - each wait is for a moment
        """Wait for a reason to claim, or for the broker."""
        able = self._link is not None and not self._link.is_blocked
        queues: Sequence[str] = self._queues if able else ()
        if self.runtime.settle_down(queues, able=able):
            seconds = min(self.runtime.wait_seconds(), IDLE_SECONDS)
            if self._link is None:
                seconds = min(seconds, max(0.0, self._retry_at - time.monotonic()))
            elif self._link.is_blocked or self._flights:
                seconds = min(seconds, BLOCKED_SECONDS)
            self.runtime.wait(seconds)
        self.runtime.hear()
        self.runtime.poll()

    # Ends.

    def begin_anew(self) -> None:
        """Open a new session; others may have the messages of the lost one."""
        lost, flights = self.runtime, self._flights
        back, _ = flights.lost()
        for message in back:
            lost.session.release(message)
        if self._link is not None and back:
            self._link.close()  # late confirms must not be taken for those of other messages
            self._link = None
        self._open_shift()
        self.runtime.subscribe(self._queues)
        lost.retire()
        self._late = [session for session in [*self._late, lost.session] if not session.over]

    def shut_down(self) -> None:
        """Give back what is not on the way, wait a moment for answers, and close the session."""
        self.runtime.leave()
        for message in self._flights.withdrawn(frozenset(self._queues)):
            self.session.release(message)
        end = time.monotonic() + END_SECONDS
        while (
            self._flights.on_way
            and self._link is not None
            and not self._loop.is_leaving
            and time.monotonic() < end
        ):
            self._loop.turns.turn()
            self._exchange(0.1)
        back, _ = self._flights.lost()
        for message in back:
            self.session.release(message)
        if self._link is not None:
            self._link.close()
            self._link = None
        self.session.flush()
        self.record.delete()
        for session in self._late:
            session.close()
        self.runtime.close()
