"""One call of a handler of many: what is settled by it, and what the handler is given again."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django_mq import conf, signals
from django_mq.delivery.consumer.attempt import named, settled_together
from django_mq.delivery.consumer.handlers import result_of
from django_mq.delivery.consumer.unit_of_work import leave_transactions, transactions
from django_mq.engine.decisions.bulk import Done, alike, parts_after
from django_mq.engine.decisions.interruption import Interruption
from django_mq.engine.decisions.verdict import ACCEPT, DECLINE, RELEASE
from django_mq.errors import (
    CorruptMessage,
    HandlerTimeout,
    LeaseLost,
    MiddlewareMisused,
    MQError,
    WrongOutcomes,
    shown,
)
from django_mq.seams.middleware import Execution, surrounded
from django_mq.stores.records import Settlement

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.handlers import Handler

logger = logging.getLogger("django_mq.delivery")


@dataclass(slots=True)
class BulkOutcome:
    """What became of the messages of a call."""

    settled: list[tuple[Delivery, Settlement]] = field(default_factory=list)
    #: The calls to make next, instead of this one.
    again: list[BulkCall] = field(default_factory=list)

    @property
    def is_accepted(self) -> bool:
        """Whether all messages of the call were accepted."""
        return not self.again and all(settlement.verdict is ACCEPT for _, settlement in self.settled)


@dataclass(slots=True, eq=False)
class BulkCall:
    """One call of a handler of many."""

    attempts: Sequence[Delivery]
    #: When the first call with these messages began, on the monotonic clock; None for the first call itself.
    first_begun_at: float | None = None
    _begun_at: float = field(default_factory=time.monotonic, init=False)
    _is_committed: bool = field(default=False, init=False)

    @property
    def handler(self) -> Handler:
        return self.attempts[0].handler

    def without(self, others: Collection[Delivery]) -> BulkCall:
        """Return the call of those that are not in ``others``."""
        return replace(self, attempts=[each for each in self.attempts if each not in others])

    def run(self) -> BulkOutcome:
        """Call the handler and return what became of the messages. Never raises."""
        before = transactions()
        self._tell_begin()
        readable: list[Delivery] = []
        arguments: list[tuple[Any, ...]] = []
        outcome = BulkOutcome()
        for attempt in self.attempts:
            if attempt.claimed.suspect and (lost := attempt.judge_lost()) is not None:
                outcome.settled.append((attempt, lost))
                continue
            try:
                arguments.append(self._arguments_of(attempt.message))
            except CorruptMessage as fault:
                _end(outcome, [attempt], fault)
            else:
                readable.append(attempt)
        if readable:
            self._run(readable, tuple(map(list, zip(*arguments, strict=True))), outcome)
        for attempt in self.attempts:
            attempt.message.end_request.has_ended = True
        leave_transactions(before)  # receivers may write
        self._tell_end(outcome)
        return outcome

    def expire(self) -> BulkOutcome:
        """Return what becomes of the messages of a call that exceeds its time limit."""
        outcome = BulkOutcome()
        limit = self.handler.time_limit_seconds
        for attempt in self.attempts:
            attempt.message.end_request.ask(Interruption.TIME_LIMIT)  # the thread may heed it yet
        error = HandlerTimeout(f"{self.handler.name} ran longer than {limit} seconds.")
        self._fail(self.attempts, error, outcome)
        return outcome

    def abandon(self, attempt: Delivery) -> BulkOutcome:
        """Return what becomes of the others of a call that is given up for the sake of one message."""
        outcome = BulkOutcome()
        self._repeat([[each for each in self.attempts if each is not attempt]], outcome)
        return outcome

    def _arguments_of(self, message: ReceivedMessage) -> tuple[Any, ...]:
        """Return what the handler gets of a message. Raises CorruptMessage."""
        _ = message.headers, message.body
        arguments = self.handler.arguments
        return (message,) if arguments is None else arguments(message)

    def _run(self, attempts: list[Delivery], arguments: tuple[list[Any], ...], outcome: BulkOutcome) -> None:
        try:
            parts = parts_of(attempts)
            settled = self._surrounded(attempts, arguments) if len(parts) == 1 else []
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler must not end a worker's thread
            self._fail(attempts, error, outcome)
        else:
            outcome.settled += settled
            self._repeat(parts if len(parts) > 1 else [], outcome)

    def _surrounded(
        self, attempts: list[Delivery], arguments: tuple[list[Any], ...]
    ) -> list[tuple[Delivery, Settlement]]:
        """Call the handler with the middleware around the call, and return how each message is settled."""
        middleware = conf.middleware().attempts
        if not middleware:
            return self._call(attempts, arguments)
        first, messages = attempts[0], [each.message for each in attempts]
        execution = Execution(
            message=first.message, messages=messages, handler=self.handler, outcome=first.outcome
        )
        # A middleware that keeps an error to itself accepts the messages, as around a handler of one.
        settled = [(each, accepted(each)) for each in attempts]

        def call(changed: Execution) -> None:
            given, was_committed = arguments, self._is_committed
            if changed.messages is not messages:
                if len(changed.messages) != len(messages):
                    raise MiddlewareMisused("A middleware has changed the number of messages of a call.")
                given = tuple(map(list, zip(*map(self._arguments_of, changed.messages), strict=True)))
            called = self._call(attempts, given)
            if not was_committed:  # by the call that a middleware repeats
                settled[:] = called

        try:
            surrounded(middleware, execution, call)
        except BaseException as error:
            if not self._is_committed:
                raise
            self._log_late(len(attempts), error)
        return settled

    def _log_late(self, number: int, error: BaseException) -> None:
        logger.error(
            "A function of on_commit() or a middleware has failed after handler %s has handled %s messages of"
            " queue %r: %r",
            self.handler.name,
            number,
            self.handler.queue,
            error,
            exc_info=error,
        )

    def _call(
        self, attempts: list[Delivery], arguments: tuple[list[Any], ...]
    ) -> list[tuple[Delivery, Settlement]]:
        lease, function = attempts[0].lease, self.handler.function
        limit, soft_limit = self.handler.time_limit_seconds, self.handler.soft_time_limit_seconds
        if limit is not None or soft_limit is not None:
            for attempt in attempts:
                attempt.message.limit(limit, soft_limit)
        if not self.handler.transactional or lease is None:
            return self._judged(attempts, function(*arguments))
        settled: list[tuple[Delivery, Settlement]] = []
        try:
            with settled_together(lease, self._note_commit) as written:
                settled = self._judged(attempts, function(*arguments))
                # The worker offers a declined message to another handler first.
                written += [settlement for _, settlement in settled if settlement.verdict is not DECLINE]
        except BaseException as error:
            if not self._is_committed:
                raise
            self._log_late(len(attempts), error)
        for attempt, settlement in settled:
            attempt.settled = settlement.verdict is not DECLINE
        return settled

    def _judged(self, attempts: list[Delivery], result: Any) -> list[tuple[Delivery, Settlement]]:
        """Return how each message is settled after the handler has returned."""
        if result is None:
            return [(attempt, accepted(attempt)) for attempt in attempts]
        outcomes = outcomes_of(result_of(result), len(attempts))
        for attempt, each in zip(attempts, outcomes, strict=True):
            attempt.error = self._kept(attempt, each) if isinstance(each, Done) else each
        return [(attempt, attempt.conclude()) for attempt in attempts]

    def _kept(self, attempt: Delivery, done: Done) -> BaseException | None:
        """Note the result of a message; return why it cannot be kept, None if it can."""
        try:
            attempt.keep(result_of(done.result))
        except MQError as error:
            return error
        return None

    def _note_commit(self) -> None:
        self._is_committed = True

    def _fail(self, attempts: Sequence[Delivery], error: BaseException, outcome: BulkOutcome) -> None:
        """Settle messages, or give them to the handler again, after a call that has raised."""
        lost = error.rows if isinstance(error, LeaseLost) else frozenset()
        cancelled = {each for each in attempts if each.message.interruption is Interruption.CANCELLED}
        others = [each for each in attempts if each.claimed.id not in lost and each not in cancelled]
        if 0 < len(others) < len(attempts):
            # They are not to blame.
            _end(outcome, [each for each in attempts if each in cancelled], error)
            outcome.settled += [(each, released(each)) for each in attempts if each.claimed.id in lost]
            self._repeat([others], outcome)
            return
        parts = parts_after(attempts, attempts[0].ending(error)) if others else []
        if not parts:
            _end(outcome, attempts, error)
            return
        logger.warning(
            "Handler %s failed on %s messages of queue %r, and gets them again in halves: %r",
            self.handler.name,
            len(attempts),
            self.handler.queue,
            error,
            exc_info=error if self.first_begun_at is None else None,
        )
        self._repeat(parts, outcome)

    def _repeat(self, parts: Sequence[Sequence[Delivery]], outcome: BulkOutcome) -> None:
        begun_at = self.first_begun_at or self._begun_at
        outcome.again += [BulkCall(_afresh(part), begun_at) for part in parts if part]

    # What receivers of signals are told: of each message once, however often it is halved.

    def _tell_begin(self) -> None:
        if self.first_begun_at is None and signals.is_wanted(signals.attempt_started):
            for attempt in self.attempts:
                signals.tell(signals.attempt_started, message=attempt.message)

    def _tell_end(self, outcome: BulkOutcome) -> None:
        if not signals.is_wanted(signals.attempt_finished):
            return
        seconds = time.monotonic() - (self.first_begun_at or self._begun_at)
        for attempt, settlement in outcome.settled:
            signals.tell(
                signals.attempt_finished,
                message=attempt.message,
                outcome=named(settlement.verdict, counted=settlement.counted),
                error=attempt.error,
                seconds=seconds,
            )


def parts_of(attempts: Sequence[Delivery]) -> list[list[Delivery]]:
    """Return the attempts in parts that have in common what the middleware asks for."""
    groups = conf.middleware().groups
    if not groups:
        return [list(attempts)]
    in_order = any(each.message.group_key is not None for each in attempts)
    return alike(attempts, lambda each: tuple(group(each.message) for group in groups), in_order=in_order)


def _end(outcome: BulkOutcome, attempts: Sequence[Delivery], error: BaseException) -> None:
    """Settle messages by an error that holds for each of them."""
    for attempt in attempts:
        attempt.error = error
        outcome.settled.append((attempt, attempt.conclude()))


def _afresh(attempts: Sequence[Delivery]) -> list[Delivery]:
    """Return the attempts as if no call had begun: that call may go on, and may have changed what it was given."""
    return [replace(attempt) for attempt in attempts]


def accepted(attempt: Delivery) -> Settlement:
    """Return how a message is settled that the handler has handled."""
    claimed = attempt.claimed
    return Settlement(claimed.id, claimed.claim, ACCEPT, told_to=claimed.told_to)


def released(attempt: Delivery) -> Settlement:
    """Return how a message is given back that the handler did not get."""
    claimed = attempt.claimed
    return Settlement(claimed.id, claimed.claim, RELEASE, told_to=claimed.told_to)


def outcomes_of(result: Any, number: int) -> Sequence[BaseException | Done | None]:
    """Return the outcome of each message from what a handler of many has returned. Raises WrongOutcomes."""
    is_of_each = isinstance(result, list | tuple) and len(result) == number
    if is_of_each and all(each is None or isinstance(each, BaseException | Done) for each in result):
        outcomes: Sequence[BaseException | Done | None] = result
        return outcomes
    raise WrongOutcomes(
        f"The handler returned {shown(result)} for {number} messages; return None if all are done, or a list with"
        " None, Done(result) or an error for each message, in their order."
    )
