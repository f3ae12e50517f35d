"""Run what is ready, by the rules of the queues, in the thread of the test.

A drain is a worker that runs one handler at a time, and settles what it has handled before the next claim. Claims
and settlements are those of the store, over Django's connection, so they are part of the transaction of a
``TestCase``.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from asgiref.sync import async_to_sync

from django_mq.bulk.call import BulkCall, released
from django_mq.delivery.codecs import ReceivedMessage
from django_mq.delivery.consumer.attempt import named
from django_mq.delivery.consumer.duties import DUTIES, run_duties
from django_mq.delivery.consumer.handlers import Way, carries_task, notices_of
from django_mq.engine.decisions.arbiter import LEFT_SECONDS
from django_mq.engine.decisions.bulk import behind
from django_mq.engine.decisions.dead_letters import ORIGIN_QUEUE
from django_mq.engine.decisions.verdict import DECLINE, RELEASE, Verdict
from django_mq.engine.states import State
from django_mq.errors import DrainNeverEnds, Reject, Retry
from django_mq.stores import queue_records
from django_mq.stores.clock import clock
from django_mq.stores.records import Settlement, headers_in
from django_mq.testing.drained import DrainedMessage
from django_mq.testing.session import DrainSession
from django_mq.testing.transactions import as_autocommit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed, Claimed

#: The duties of maintenance that change messages. The others look after workers and the history.
MESSAGE_DUTIES: Final = ("promote", "expire", "bury_unwanted", "trim")
#: How often a claim is repeated that has left messages to a session which may not have claimed them.
TRIES = 3
#: The outcomes of an attempt that has failed.
FAILURES = ("retried", "dead", "failed")


class Drain:
    """Runs what is ready, until nothing is."""

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
        if names is not None:
            # The functions that are called when messages of a queue die go with its handlers.
            self._names = names = [each for name in names for each in (name, notices_of(name))]
        every = [each for name in (handlers if names is None else names) for each in handlers.get(name, ())]
        single = [handler for handler in every if handler.way is not Way.BULK]
        bulks = [[handler] for handler in every if handler.way is Way.BULK]
        self._sessions = [DrainSession(store, some, every) for some in (single, *bulks)]
        self._limit = limit
        self._raise_errors = raise_errors
        #: The first error of a handler, with the traceback that it has there.
        self.raised: tuple[BaseException, TracebackType | None] | None = None
        #: What was done so far, and the messages that were taken, by row id.
        self.attempts: list[DrainedMessage] = []
        self.taken: dict[int, ReceivedMessage] = {}

    def run(self, ahead: timedelta) -> None:
        """Run what is ready, and what becomes ready within so long, and move the clock by as much.

        Raises DrainNeverEnds, and what a handler raises, if that is wished.
        """
        end = clock.offset + ahead
        with ExitStack() as stack:
            for session in self._sessions:
                session.open()
                stack.callback(session.close)
            while True:
                self._find_tasks()
                has_worked, due = self._run_ready()
                if has_worked or self._maintain() or self._find_tasks():
                    continue
                if clock.offset == end:
                    return
                wait = end - clock.offset
                clock.offset += wait if due is None else min(wait, timedelta(seconds=due))

    def _maintain(self) -> bool:
        """Run the duties of maintenance that change messages; return whether one did."""
        done = run_duties(self._store, [duty for duty in DUTIES if duty.name in MESSAGE_DUTIES])
        return any(any(changed.values()) for changed in done.values())

    def _run_ready(self) -> tuple[bool, float | None]:
        """Run what is ready in each session; return whether there was any, and in how many seconds more is due."""
        before = len(self.taken), len(self.attempts)
        due = [
            seconds
            for session in self._sessions
            if session.queues and (seconds := self._run_session(session)) is not None
        ]
        return (len(self.taken), len(self.attempts)) != before, min(due, default=None)

    def _run_session(self, session: DrainSession) -> float | None:
        tries = TRIES
        while True:
            result = session.claim()
            mine = [message for message in result.claimed if self._is_for_a_handler(session, message)]
            for message in session.dispatcher.offer(mine, result.grouped):
                session.settle(Settlement(message.id, message.claim, RELEASE))
            if session.size > 1:
                self._run_bulks(session)
            else:
                self._run_singles(session)
            due = result.next_due_seconds
            if result.claimed:
                tries = TRIES
            elif due is None or not due <= LEFT_SECONDS or tries == 0:
                return due
            else:
                tries -= 1

    def _is_for_a_handler(self, session: DrainSession, message: Claimed) -> bool:
        """Return whether a handler gets the message; settle it if not."""
        self.taken[message.id] = ReceivedMessage(message)
        if message.expired:
            session.settle(Settlement(message.id, message.claim, Verdict.EXPIRE))
            self.attempts.append(DrainedMessage(self.taken[message.id], "", "expired"))
        elif carries_task(message) or message.queue_name not in session.handled:
            self._run_task(session, message)
        else:
            return True
        return False

    # Handlers.

    def _run_singles(self, session: DrainSession) -> None:
        while (attempt := session.dispatcher.next_attempt()) is not None:
            self._count([attempt.claimed], session)
            with as_autocommit():
                is_async = attempt.handler.way is Way.EVENT_LOOP
                settlement = async_to_sync(attempt.arun)() if is_async else attempt.run()
            self._end(session, attempt, settlement)
            self._raise()

    def _run_bulks(self, session: DrainSession) -> None:
        while attempts := session.dispatcher.next_attempts(session.size):
            self._count([attempt.claimed for attempt in attempts], session)
            calls = [BulkCall(attempts)]
            while calls:
                with as_autocommit():
                    outcome = calls.pop(0).run()
                calls = [*outcome.again, *calls]
                for attempt, settlement in outcome.settled:
                    self._end(session, attempt, settlement)
                    if settlement.verdict in (RELEASE, DECLINE):
                        calls = self._give_back_behind(session, attempt, calls)
            self._raise()

    @staticmethod
    def _give_back_behind(session: DrainSession, attempt: Delivery, calls: Sequence[BulkCall]) -> list[BulkCall]:
        """Give back what is behind a message of its group that goes back; return the calls without it."""
        group, parts = attempt.claimed.group_key, [call.attempts for call in calls]
        back = set(behind(group, parts, lambda each: each.claimed.group_key))
        for each in back:
            session.settle(released(each))
            session.dispatcher.finish(each)
        for message in session.dispatcher.close_group(attempt.claimed):
            session.settle(Settlement(message.id, message.claim, RELEASE))
        return [rest for call in calls if (rest := call.without(back)).attempts]

    def _end(self, session: DrainSession, attempt: Delivery, settlement: Settlement) -> None:
        """Settle an attempt, unless another handler gets the message, and note it."""
        if not (settlement.verdict is DECLINE and session.dispatcher.hand_on(attempt)):
            if not attempt.settled:
                session.settle(settlement)
            session.dispatcher.finish(attempt)
        outcome = named(settlement.verdict, counted=settlement.counted)
        is_choice = isinstance(attempt.error, Reject | Retry)
        self._note(attempt.message, attempt.handler.name, outcome, attempt.error, is_choice=is_choice)

    # Tasks of Celery.

    def _find_tasks(self) -> bool:
        """Consume the queues with tasks of Celery, too, but not for dead letters; return whether some are new."""
        if "celery" not in sys.modules:
            return False
        session, *_ = self._sessions
        waiting = self._store.queues.counts(self._names, limit=1)
        others = [name for name, counts in waiting.items() if counts.total and name not in session.queues]
        found = [name for name in others if any(map(self._is_for_celery, self._first(name)))]
        session.consume(found)
        return bool(found)

    def _is_for_celery(self, message: Browsed) -> bool:
        is_dead_letter = ORIGIN_QUEUE in headers_in(message.headers)
        return carries_task(message) and (self._names is not None or not is_dead_letter)

    def _first(self, name: str) -> list[Browsed]:
        return self._store.browser.browse(name, states=[State.READY, State.SCHEDULED], limit=1)

    def _run_task(self, session: DrainSession, message: Claimed) -> None:
        from django_mq.testing.tasks import run_task  # noqa: PLC0415 - only projects with Celery import it

        self._count([message], session)
        alias = self._store.database.alias
        with as_autocommit():
            run = run_task(message, queue_records.last_read(alias, message.queue_name), alias)
        session.settle(run.settlement)
        self._note(self.taken[message.id], message.type, run.outcome, run.error, is_choice=run.is_choice)
        self._raise()

    # What is said of it.

    def _note(
        self, message: ReceivedMessage, handler: str, outcome: str, error: BaseException | None, *, is_choice: bool
    ) -> None:
        self.attempts.append(DrainedMessage(message, handler, outcome, error))
        if error is None or is_choice or outcome not in FAILURES or self.raised is not None:
            return
        self.raised = error, error.__traceback__
        if self._raise_errors:
            error.add_note(
                f"{handler} raised this on {message!r} in a drain; the message is {outcome}."
                " drain(raise_errors=False) returns errors instead of raising them."
            )

    def _raise(self) -> None:
        """Raise the first error of a handler, if that is wished."""
        if self.raised is not None and self._raise_errors:
            raise self.raised[0]

    def _count(self, messages: Sequence[Claimed], session: DrainSession) -> None:
        """Give messages back, and raise DrainNeverEnds, if as many attempts were made as may be."""
        if len(self.attempts) + len(messages) <= self._limit:
            return
        for message in messages:
            session.settle(Settlement(message.id, message.claim, RELEASE))
        runs = Counter((attempt.queue, attempt.handler) for attempt in self.attempts)
        ran = "".join(
            f" {handler} ran {times} times on queue {queue!r}: does it publish or release messages for ever?"
            for (queue, handler), times in runs.most_common(1)
        )
        raise DrainNeverEnds(
            f"A drain may run {self._limit} attempts, has run {len(self.attempts)}, and"
            f" {self.taken[messages[0].id]!r} is ready.{ran} Give drain() a larger limit if it is to run more."
        )
