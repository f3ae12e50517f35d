"""Run what is ready, by the rules of the queues, in the thread of the test.

It is a worker with one slot: it claims one message, runs its handler, and settles it before the next claim.
Claims and settlements are those of the store, over Django's connection, so they are part of the transaction of a
``TestCase``.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from asgiref.sync import async_to_sync

from django_mq import __version__
from django_mq.delivery.codecs import ReceivedMessage
from django_mq.delivery.consumer.attempt import Delivery, named
from django_mq.delivery.consumer.duties import DUTIES, run_duties
from django_mq.delivery.consumer.handlers import Way, carries_task
from django_mq.delivery.consumer.prefetch import Dispatcher, prefetch_of
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.arbiter import LEFT_SECONDS
from django_mq.engine.decisions.dead_letters import ORIGIN_QUEUE
from django_mq.engine.decisions.verdict import DECLINE, RELEASE, Verdict
from django_mq.engine.states import State
from django_mq.errors import Decline, DrainNeverEnds, Reject, Release, Retry
from django_mq.stores import queue_records
from django_mq.stores.clock import clock
from django_mq.stores.records import ClaimRequest, Lease, SessionInfo, Settlement, headers_in
from django_mq.testing.transactions import as_autocommit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed, Claimed, ClaimResult

#: The duties of maintenance that change messages. The others look after workers and the history.
MESSAGE_DUTIES: Final = ("promote", "expire", "bury_unwanted", "trim")
#: Longer than any test moves the clock: the session of a drain is not given up meanwhile.
DEADLINE_SECONDS = timedelta(days=36_500).total_seconds()
#: How often a claim is repeated that has left messages to a session which may not have claimed them.
TRIES = 3
#: What a handler raises to choose an outcome. All else is an error of the handler.
CHOICES = (Reject, Release, Decline, Retry)


@dataclass(frozen=True, slots=True)
class DrainedMessage:
    """One attempt of a drain, or what became of a message without one."""

    message: ReceivedMessage
    #: The dotted name of the handler, or the name of the Celery task; blank for a message that has expired.
    handler: str
    #: "accepted", "retried", "released", "declined", "dead", "expired"; of a Celery task also "failed", "revoked".
    outcome: str
    #: What the handler has raised.
    error: BaseException | None = None

    @property
    def queue(self) -> str:
        return self.message.queue

    def __str__(self) -> str:
        raised = "" if self.error is None else f": {self.error!r}"
        return f"{self.outcome} {self.message!r} by {self.handler or 'no handler'}{raised}"


class Drained(tuple[DrainedMessage, ...]):
    """The attempts of a drain, in order."""

    __slots__ = ()

    @property
    def outcomes(self) -> list[str]:
        """The outcomes, in order."""
        return [attempt.outcome for attempt in self]

    @property
    def errors(self) -> list[BaseException]:
        """What handlers have raised, in order."""
        return [attempt.error for attempt in self if attempt.error is not None]

    def of(self, queue: str) -> Drained:
        """Return the attempts of a queue."""
        return Drained(attempt for attempt in self if attempt.queue == queue)

    def __repr__(self) -> str:
        return f"<drained {len(self)}: {'; '.join(map(str, self)) or 'nothing was ready'}>"


class Drain:
    """One session that runs what is ready, until nothing is."""

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Sequence[Handler]],
        names: Sequence[str] | None,
        *,
        limit: int,
        raise_errors: bool,
    ) -> None:
        """Drain the queues with these ``names``, None for all; ``handlers`` are those of all queues."""
        self._store = store
        self._names = names
        # One message at a time: the next claim sees what a handler has published.
        given = [
            replace(handler, credit=1, credit_bytes=None)
            for name in (handlers if names is None else names)
            for handler in handlers.get(name, ())
        ]
        self._dispatcher = Dispatcher(prefetch_of(given, self._begin))
        self._handled = self._queues = tuple(dict.fromkeys(handler.queue for handler in given))
        self._limit = limit
        self._raise_errors = raise_errors
        self._session_id = 0
        self._served = ""
        #: What was done so far, and the messages that were taken, by row id.
        self.attempts: list[DrainedMessage] = []
        self.taken: dict[int, ReceivedMessage] = {}

    def _begin(self, message: Claimed, handler: Handler, receipt: Any) -> Delivery:
        alias = self._store.database.alias
        policy = queue_records.last_read(alias, message.queue_name)
        return Delivery(message, handler, policy, Lease(alias, self._session_id), receipt=receipt)

    def run(self, ahead: timedelta) -> None:
        """Run what is ready, and what becomes ready within so long, and move the clock by as much.

        Raises DrainNeverEnds, and what a handler raises, if that is wished.
        """
        end = clock.offset + ahead
        with self._session():
            while True:
                self._find_tasks()
                due = self._run_ready()
                if self._maintain() or self._find_tasks():
                    continue
                if clock.offset == end:
                    return
                wait = end - clock.offset
                clock.offset += wait if due is None else min(wait, timedelta(seconds=due))

    @contextmanager
    def _session(self) -> Iterator[None]:
        info = SessionInfo(
            name="drain",
            kind="native",
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            queues=self._queues,
            credit=1,
        )
        self._session_id = self._store.sessions.open(info, deadline_seconds=DEADLINE_SECONDS)
        try:
            self._consume(self._queues)
            yield
        finally:
            self._store.sessions.close(self._session_id)

    def _consume(self, queues: Sequence[str]) -> None:
        self._queues = tuple(dict.fromkeys([*self._queues, *queues]))
        self._know_queues()
        for name in queues:
            self._store.claims.subscribe(self._session_id, name)  # of those that only one session may have

    def _find_tasks(self) -> bool:
        """Consume the queues with tasks of Celery, too, but not for dead letters; return whether some are new."""
        if "celery" not in sys.modules:
            return False
        waiting = self._store.queues.counts(self._names, limit=1)
        others = [name for name, counts in waiting.items() if counts.total and name not in self._queues]
        found = [name for name in others if any(map(self._is_for_celery, self._first(name)))]
        self._consume(found)
        return bool(found)

    def _is_for_celery(self, message: Browsed) -> bool:
        return carries_task(message) and (
            self._names is not None or ORIGIN_QUEUE not in headers_in(message.headers)
        )

    def _first(self, name: str) -> list[Browsed]:
        return self._store.browser.browse(name, states=[State.READY, State.SCHEDULED], limit=1)

    def _know_queues(self) -> None:
        for name in self._queues:
            if queue_records.known(self._store, name) is None:
                declare(self._store, name)
                queue_records.known(self._store, name)

    def _maintain(self) -> bool:
        """Run the duties of maintenance that change messages; return whether one did."""
        done = run_duties(self._store, [duty for duty in DUTIES if duty.name in MESSAGE_DUTIES])
        return any(any(changed.values()) for changed in done.values())

    def _run_ready(self) -> float | None:
        """Run messages until none is ready; return in how many seconds one is due, None for never."""
        if not self._queues:
            return None
        tries = TRIES
        while True:
            result = self._claim()
            for message in result.claimed:
                self._serve(message)
            due = result.next_due_seconds
            if result.claimed:
                tries = TRIES
            elif due is None or not due <= LEFT_SECONDS or tries == 0:
                return due
            else:
                tries -= 1

    def _claim(self) -> ClaimResult:
        self._know_queues()
        wanted = self._dispatcher.wanted()
        after = self._queues.index(self._served) + 1 if self._served else 0
        request = ClaimRequest(
            queues=self._queues[after:] + self._queues[:after],
            credit=1,
            full_scan=True,
            limits=wanted,
            wanted=self._dispatcher.selections(),
        )
        return self._store.claims.settle_and_claim(self._session_id, [], request)

    def _serve(self, message: Claimed) -> None:
        self._served = message.queue_name
        self.taken[message.id] = ReceivedMessage(message)
        if message.expired:
            self._settle(Settlement(message.id, message.claim, Verdict.EXPIRE))
            self._note(self.taken[message.id], "", "expired")
            return
        if carries_task(message) or message.queue_name not in self._handled:
            self._run_task(message)
            return
        self._dispatcher.offer([message])
        while (delivery := self._dispatcher.next_attempt()) is not None:
            self._attempt(delivery)

    def _run_task(self, message: Claimed) -> None:
        from django_mq.testing.tasks import run_task  # noqa: PLC0415 - only projects with Celery import it

        self._count(message)
        alias = self._store.database.alias
        with as_autocommit():
            run = run_task(message, queue_records.last_read(alias, message.queue_name), alias)
        self._settle(run.settlement)
        self._note(self.taken[message.id], message.type, run.outcome, run.error, is_choice=run.is_choice)

    def _count(self, message: Claimed) -> None:
        """Give the message back, and raise DrainNeverEnds, if as many attempts were made as may be."""
        if len(self.attempts) >= self._limit:
            self._settle(Settlement(message.id, message.claim, RELEASE))
            raise self._endless(message)

    def _attempt(self, delivery: Delivery) -> None:
        self._count(delivery.claimed)
        with as_autocommit():
            is_async = delivery.handler.way is Way.EVENT_LOOP
            settlement = async_to_sync(delivery.arun)() if is_async else delivery.run()
        handed_on = settlement.verdict is DECLINE and self._dispatcher.hand_on(delivery)
        if not handed_on:
            if not delivery.settled:
                self._settle(settlement)
            self._dispatcher.finish(delivery)
        self._note(
            delivery.message,
            delivery.handler.name,
            named(settlement.verdict, counted=settlement.counted),
            delivery.error,
            is_choice=isinstance(delivery.error, CHOICES),
        )

    def _settle(self, settlement: Settlement) -> None:
        self._store.claims.settle_and_claim(self._session_id, [settlement], None)

    def _note(
        self,
        message: ReceivedMessage,
        handler: str,
        outcome: str,
        error: BaseException | None = None,
        *,
        is_choice: bool = False,
    ) -> None:
        self.attempts.append(attempt := DrainedMessage(message, handler, outcome, error))
        if error is None or is_choice or not self._raise_errors:
            return
        error.add_note(
            f"{attempt.handler} raised this on {message!r} in a drain; the message is {outcome}."
            " drain(raise_errors=False) returns errors instead of raising them."
        )
        raise error

    def _endless(self, message: Claimed) -> DrainNeverEnds:
        runs = Counter((attempt.queue, attempt.handler) for attempt in self.attempts)
        [((queue, handler), times)] = runs.most_common(1)
        return DrainNeverEnds(
            f"A drain has run {self._limit} attempts, and {self.taken[message.id]!r} is ready. {handler} ran"
            f" {times} times on queue {queue!r}: does it publish or release messages for ever? If not, give"
            " drain() a larger limit."
        )
