"""One delivery of a message to its handler: decode, call, judge.

Every outcome becomes a settlement: neither an exception of a handler nor a broken message stops the worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from random import random
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import transaction

from django_mq import conf, signals
from django_mq.delivery.codecs import ReceivedMessage, encode_result
from django_mq.delivery.consumer.handlers import result_of
from django_mq.delivery.consumer.unit_of_work import leave_transactions, transactions
from django_mq.delivery.validation import moment
from django_mq.engine.decisions.ends import ON_DEAD
from django_mq.engine.decisions.interruption import ERRORS, Interruption
from django_mq.engine.decisions.verdict import RELEASE, RETURNED, Decision, Ending, Verdict, ending_of, verdict
from django_mq.errors import (
    Cancelled,
    HandlerTimeout,
    InvalidMessage,
    LeaseLost,
    RateLimited,
    Reject,
    Release,
    Retry,
    StoreError,
    Suspended,
    WorkerLost,
)
from django_mq.seams.ends import wants_result, with_mark
from django_mq.seams.middleware import Execution, asurrounded, surrounded
from django_mq.stores.clock import clock
from django_mq.stores.records import Failure, Lease, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import TypeAlias

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.engine.decisions.retries import Retries
    from django_mq.engine.decisions.verdict import Delays, Policy
    from django_mq.stores.records import Claimed, Write

    #: Makes a function one that is awaited, and that runs in a thread.
    InThread: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]

logger = logging.getLogger("django_mq.delivery")


@dataclass(slots=True, eq=False)
class Delivery:
    """One delivery on its way through the handler."""

    claimed: Claimed
    handler: Handler
    policy: Policy
    #: The lease by which a transactional handler's acknowledgement is written.
    lease: Lease | None = None
    _: KW_ONLY
    #: The worker's shift, and what the prefetch needs to take the attempt back.
    origin: Any = None
    receipt: Any = None
    message: ReceivedMessage = field(init=False)
    error: BaseException | None = field(default=None, init=False)
    #: What the handler has returned, as JSON, if that is asked for.
    returned: str | None = field(default=None, init=False)
    #: What is written before the verdict, in a worker that settles for its handlers.
    first: Write | None = field(default=None, init=False)
    #: Whether the acknowledgement is already written.
    settled: bool = field(default=False, init=False)
    #: Whether the time limit was exceeded: the outcome of the call is ignored.
    abandoned: bool = field(default=False, init=False)
    #: The last error that was judged, and how: a delay is drawn once.
    _decided: tuple[BaseException, Decision] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.message = message = ReceivedMessage(self.claimed)
        message.using = None if self.lease is None else self.lease.alias
        if self.handler.for_message is not None:
            self.handler, message.delivery = self.handler.over(lambda: message.body), self

    def run(self) -> Settlement:
        """Run the steps and return the outcome. Never raises."""
        if (settlement := self._begin()) is not None:
            return settlement
        if not _is_watched():
            return self._go()
        begin, before = time.monotonic(), transactions()
        signals.tell(signals.attempt_started, message=self.message)
        settlement = self._go()
        leave_transactions(before)  # receivers may write
        self._tell_finished(settlement, begin)
        return settlement

    def _go(self) -> Settlement:
        try:
            if middleware := conf.middleware().attempts:
                surrounded(middleware, self._execution(), lambda changed: self.call(changed.message))
            else:
                self.call(self.message)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler must not end a worker's thread
            self._take(error)
        return self.conclude()

    # The same for a coroutine function.

    async def arun(self, in_thread: InThread = sync_to_async) -> Settlement:
        """Run the steps and return the outcome; ``in_thread`` calls what may ask a database. Never raises."""
        settlement = await in_thread(self._begin)() if self.claimed.suspect else self._begin()
        if settlement is not None:
            return settlement
        if not _is_watched():
            return await self._ago()
        begin = time.monotonic()
        settlement = await self._ago(in_thread(signals.tell))
        with suppress(asyncio.CancelledError):  # the outcome stays
            await in_thread(self._tell_finished)(settlement, begin)
        return settlement

    async def _ago(self, tell: Callable[..., Awaitable[None]] | None = None) -> Settlement:
        try:
            if tell is not None:
                await tell(signals.attempt_started, message=self.message)
            if middleware := conf.middleware().async_attempts:
                await asurrounded(middleware, self._execution(), lambda changed: self.acall(changed.message))
            else:
                await self.acall(self.message)
        except BaseException as error:  # noqa: BLE001 - nor a worker's event loop
            self._take(self.reason_of(error))
        if self.message.interruption is Interruption.TIME_LIMIT:  # whatever the coroutine has made of it
            self.error = self._overdue()
        return self.conclude()

    def reason_of(self, error: BaseException) -> BaseException:
        """Return the error that ends the attempt: the reason, if the worker has cancelled the coroutine."""
        reason = self.message.interruption
        if isinstance(error, asyncio.CancelledError) and reason in (Interruption.CANCELLED, Interruption.STOPPING):
            error = ERRORS[reason]()
        return error

    # Steps of both.

    def _begin(self) -> Settlement | None:
        """Begin the time limits; return the outcome of a message that is not to run."""
        if self.claimed.suspect and (settlement := self.judge_lost()) is not None:
            return settlement
        limit, soft_limit = self.handler.time_limit_seconds, self.handler.soft_time_limit_seconds
        if limit is not None or soft_limit is not None:
            self.message.limit(limit, soft_limit)
        return None

    def _execution(self) -> Execution:
        return Execution(message=self.message, handler=self.handler, outcome=self.outcome)

    def _tell_finished(self, settlement: Settlement, begin: float) -> None:
        signals.tell(
            signals.attempt_finished,
            message=self.message,
            outcome=named(settlement.verdict, counted=settlement.counted),
            error=self.error,
            seconds=time.monotonic() - begin,
        )

    def conclude(self) -> Settlement:
        """Judge; an outcome that cannot be judged is a failure."""
        try:
            return self.judge()
        except Exception as error:
            # A failure that counts: the message must not come back for ever.
            logger.exception("The outcome of message %s could not be judged", self.message.id)
            decision = verdict(Ending.FAILED, self.message.attempt, self.policy, 0.0)
            failure = Failure.of(error)
            return self._dead(decision, failure.error, failure)

    def call(self, message: ReceivedMessage) -> Any:
        """Call the handler; a transactional one in the transaction that also accepts the message."""
        _ = message.headers, message.body  # a corrupt message does not reach the handler
        lease = self.lease
        if not self.handler.transactional or lease is None:
            return self.keep(result_of(self.handler.call(message)))
        accept = Settlement.of(self.claimed, verdict(RETURNED, self.message.attempt, self.policy))
        with settled_together(lease, self._note_commit) as settlements:
            result = self.keep(result_of(self.handler.call(message)))
            accept.returned = self.returned
            settlements.append(accept)
        return result

    async def acall(self, message: ReceivedMessage) -> Any:
        """Call the handler, a coroutine function."""
        _ = message.headers, message.body  # a corrupt message does not reach the handler
        return self.keep(result_of(await self.handler.call(message)))

    def keep(self, result: Any) -> Any:
        """Note what the handler has returned, if a listening asks for it, and return it.

        Raises ResultNotSerialisable or ResultTooLarge.
        """
        mark = self.claimed.told_to
        if mark is not None and result is not None and wants_result(mark, conf.extensions().ends):
            self.returned = encode_result(result)
        return result

    @property
    def is_settled_later(self) -> bool:
        """Whether a worker of this process writes the verdict, together with others."""
        return self.origin is not None

    def _note_commit(self) -> None:
        self.settled = True

    def _take(self, error: BaseException) -> None:
        """Note why the call has failed, unless its transaction was committed before."""
        if not self.settled or isinstance(error, Suspended):
            self.error, self.settled = error, isinstance(error, Suspended)  # the message is parked by then
            return
        self._log(
            logging.ERROR,
            "A function of on_commit() or a middleware has failed after handler %s has handled message %s of queue"
            " %r: %r",
            error,
            trace=error,
        )

    def outcome(self, error: BaseException | None) -> str:
        """Name what becomes of the message if the call ends with this error; None if the handler returns."""
        if error is None or self.settled:
            return named(Verdict.ACCEPT)
        decision = self._decide(error)
        return named(decision.verdict, counted=decision.counted)

    def ending(self, error: BaseException) -> Ending:
        """Return how a call of the handler ended that raised this error."""
        own = self.handler.retries
        return ending_of(error) if own is None else own.ending_of(error)

    def _decide(self, error: BaseException) -> Decision:
        """Return what becomes of the message after this error."""
        if self._decided is None or self._decided[0] is not error:
            cancelled = self.message.interruption is Interruption.CANCELLED
            self._decided = (
                error,
                decide(error, self.claimed, self.policy, self.handler.retries, cancelled=cancelled),
            )
        return self._decided[1]

    def judge_lost(self) -> Settlement | None:
        """Judge a message whose worker died at its last attempt, as far as the handler says; None if it is to run.

        The maintenance knows the queue only, and has given the message back.
        """
        own = self.handler.retries
        if own is None or verdict(Ending.FAILED, self.claimed.attempts, own.over(self.policy)).verdict is RELEASE:
            self._mark_suspect()
            return None
        logger.error(
            "Message %s of queue %r is dead: its worker died at the last attempt",
            *self._names()[1:],
            extra={"mq_message": self.message},
        )
        return self._dead(Decision(Verdict.DEAD), "worker lost")

    def _dead(self, decision: Decision, reason: str, failure: Failure | None = None) -> Settlement:
        """Return the settlement of a message that may be dead, and of which its handler is told then."""
        settlement = Settlement.of(self.claimed, decision, reason, failure)
        if self.handler.on_dead and decision.verdict is Verdict.DEAD:
            settlement.told_to, settlement.marks = with_mark(self.claimed.told_to, ON_DEAD), True
        return settlement

    def _mark_suspect(self) -> None:
        """Have the handler told if its worker dies: other workers bury the message then."""
        if not self.handler.on_dead or self.lease is None:
            return
        store, mark = shared_store(self.lease.alias), with_mark(self.claimed.told_to, ON_DEAD)
        try:
            store.settlements.mark(self.lease.session_id, self.claimed.receipt, mark)
        except StoreError:
            logger.exception("on_dead will not be called if message %s kills its worker", self.message.id)

    def judge(self) -> Settlement:
        """Turn what happened into a settlement."""
        self.message.end_request.has_ended = True
        error, number = self.error, self.message.attempt
        if error is None:  # nearly every message
            if logger.isEnabledFor(logging.DEBUG):
                self._log(logging.DEBUG, "Handler %s has handled message %s of queue %r")
            settlement = Settlement.of(self.claimed, verdict(RETURNED, number, self.policy))
            settlement.returned = self.returned
            return settlement
        decision = self._decide(error)
        if decision.verdict is Verdict.CANCEL:
            text = "Handler %s was cancelled while it ran on message %s of queue %r: %r"
            self._log(logging.INFO, text, error)
        if not decision.counted:
            if decision.delay_seconds:
                text = "Handler %s has released message %s of queue %r for %.1f s: %r"
                self._log(logging.INFO, text, decision.delay_seconds, error)
            settlement = Settlement.of(self.claimed, decision)
            if isinstance(error, RateLimited):
                settlement.first = error.first  # type: ignore[assignment] # a Write
            return settlement
        if decision.verdict is not Verdict.DEAD:
            # A Retry is the wish of the handler, and no fault.
            wished = isinstance(error, Retry)
            self._log(
                logging.INFO if wished else logging.WARNING,
                "Handler %s failed on message %s of queue %r, attempt %s, again in %.1f s: %r",
                number,
                decision.delay_seconds,
                error,
                trace=None if wished else self._logged(error),
            )
            return Settlement.of(self.claimed, decision, failure=_failure(error))
        return self._buried(error, decision)

    def _buried(self, error: BaseException, decision: Decision) -> Settlement:
        number, failure = self.message.attempt, _failure(error)
        reason = f"{failure.error}: {failure.detail}" if failure.detail else failure.error
        # %r: a text of a publisher or an exception must not forge lines of the log.
        chosen = isinstance(error, Reject)
        self._log(
            logging.WARNING if chosen else logging.ERROR,
            "Handler %s failed on message %s of queue %r, attempt %s, the message is dead: %r",
            number,
            reason,
            trace=None if chosen else self._logged(error),
        )
        return self._dead(decision, reason, failure)

    def _log(self, level: int, text: str, *values: object, trace: BaseException | None = None) -> None:
        """Log what became of the message. Filters may read it: the middleware of the attempt has ended."""
        extra = {"mq_message": self.message}
        logger.log(level, text, *self._names(), *values, exc_info=trace, extra=extra, stacklevel=2)

    def _names(self) -> tuple[str, str, str]:
        # All of Django's tasks have one handler: the type names the task.
        kind = f" ({self.message.type!r})" if self.message.type else ""
        return self.handler.name, f"{self.message.id}{kind}", self.message.queue

    def _logged(self, error: BaseException) -> BaseException | None:
        """Return the error whose traceback is logged."""
        return error

    def expire(self) -> Settlement:
        """Judge a call that exceeds its time limit."""
        self.abandoned = True
        self.message.end_request.ask(Interruption.TIME_LIMIT)  # the thread may heed it yet
        self.error = self._overdue()
        return self.judge()

    def _overdue(self) -> HandlerTimeout:
        return HandlerTimeout(f"{self.handler.name} ran longer than {self.handler.time_limit_seconds} seconds.")

    def lose(self, error: BaseException) -> Settlement:
        """Judge a call whose process died: the error is not the handler's, so no class of its options matches."""
        self.error = error
        self._decided = error, decide(WorkerLost(), self.claimed, self.policy, self.handler.retries)
        return self.judge()

    def give_up(self, seconds: float) -> Settlement:
        """Judge a call that does not end although its message was cancelled so long ago."""
        self.abandoned = True
        logger.warning(
            "Handler %s has not ended %s s after message %s of queue %r was cancelled, and is given up",
            self._names()[0],
            seconds,
            *self._names()[1:],
        )
        self.error = Cancelled()
        return self.judge()


def _is_watched() -> bool:
    """Whether to tell that attempts begin or end."""
    return signals.is_wanted(signals.attempt_started) or signals.is_wanted(signals.attempt_finished)


@contextmanager
def settled_together(lease: Lease, note_commit: Callable[[], object]) -> Iterator[list[Settlement]]:
    """Commit the settlements that the block adds together with what it writes.

    ``note_commit`` is called when that is done, perhaps twice. Raises LeaseLost, and rolls everything back, if
    another worker has one of the messages.
    """
    settlements: list[Settlement] = []
    with transaction.atomic(using=lease.alias):
        # Before the functions that the handler registers, which may raise after the commit.
        transaction.on_commit(note_commit, using=lease.alias)
        yield settlements
        if lost := shared_store(lease.alias).settlements.settle(lease.session_id, settlements):
            raise LeaseLost(lost)
    note_commit()


def named(decided: Verdict, *, counted: bool = False) -> str:
    """Return the name that signals and middleware have for a verdict."""
    if decided in (Verdict.RELEASE, Verdict.PARK):
        return "retried" if counted else "released"
    if decided is Verdict.DECLINE:
        return "declined"
    if decided is Verdict.CANCEL:
        return "cancelled"
    return "dead" if decided is Verdict.DEAD else "accepted"


def decide(
    error: BaseException, claimed: Claimed, queue: Policy, own: Retries | None, *, cancelled: bool = False
) -> Decision:
    """Return what becomes of a message whose handler, with rules of its own or none, has raised an error."""
    number, policy, left_seconds = claimed.attempts + 1, queue, None
    if own is None:
        ending = ending_of(error, cancelled=cancelled)
    else:
        ending, policy = own.ending_of(error, cancelled=cancelled), own.over(queue)
        now = clock.now().timestamp()
        left_seconds = own.left_seconds(claimed.published_at.timestamp(), claimed.place, now)
        if callable(own.backoff):
            policy = policy._replace(backoff=OwnBackoff(own, own.backoff, error, policy.backoff))
    delay_seconds = _wished_delay(error)
    if delay_seconds is None and ending is Ending.RELEASED:
        delay_seconds = _release_delay(error, own, policy)
    return verdict(ending, number, policy, delay_seconds, left_seconds=left_seconds)


@dataclass(frozen=True, slots=True)
class OwnBackoff:
    """The handler's own function as a backoff. If it fails, that is logged, and the queue's backoff is used."""

    retries: Retries
    function: Callable[[int, BaseException], Any]
    error: BaseException
    otherwise: Delays

    def delay(self, attempt: int, random: Callable[[], float] = random) -> float:
        """Return the seconds to wait after the ``attempt``-th failure."""
        try:
            wish = self.function(attempt, self.error)
            if wish is not None:
                return self.retries.shaped(moment(None, wish, "deliver_at", "backoff")[1] or 0.0).delay(1, random)
        except Exception:
            logger.exception("The backoff of a handler has failed, that of the queue is used")
        return self.otherwise.delay(attempt, random)


def _release_delay(error: BaseException, own: Retries | None, policy: Policy) -> float | None:
    """Return the delay of a message that is given back without a possible delay in its error."""
    if not isinstance(error, Release):
        return None if own is None else own.release_seconds
    if error.delay_seconds is None and not isinstance(error, RateLimited):
        return None
    return 0.0 if policy.backoff is None else policy.backoff.delay(1)  # at once would be without end


def _wished_delay(error: BaseException) -> float | None:
    """Return the seconds that a Retry or Release asks for; None if it asks for none, or for nonsense."""
    wish = error.delay_seconds if isinstance(error, Retry | Release) else None
    if wish is None:
        return None
    try:
        return moment(None, wish, "deliver_at", "delay_seconds")[1]
    except InvalidMessage as refusal:
        logger.warning("%s was given an impossible delay, the backoff is used: %s", type(error).__name__, refusal)
        return None


def _failure(error: BaseException) -> Failure:
    return Failure.of(error, "".join(traceback.format_exception(error)))
