"""One call of the function of a durable handler: what it asks for is compared with what is recorded."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import connections, transaction

from django_mq.delivery.consumer.handlers import result_of
from django_mq.delivery.validation import seconds as checked_seconds
from django_mq.durable import events
from django_mq.durable.recorder import Recorder, decoded, encoded
from django_mq.durable.sleeps import ASLEEP
from django_mq.engine.decisions.durable import (
    NAME_LENGTH,
    Record,
    Reply,
    StepKind,
    StepOutcome,
    Turn,
    difference,
    replay,
)
from django_mq.engine.decisions.interruption import Interruption
from django_mq.engine.options import is_storable
from django_mq.errors import (
    Cancelled,
    ConfigurationError,
    EventTimedOut,
    InvalidMessage,
    LeaseLost,
    StepMismatch,
    StepMisused,
    Suspended,
    UnusableEvent,
    UnusableResult,
    shown,
)
from django_mq.stores.clock import clock
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from django_mq.delivery.codecs import ReceivedMessage


class DurableRun:
    """One attempt: its records, and how many of them the function has used."""

    def __init__(self, message: ReceivedMessage, *, in_transactions: bool, is_async: bool) -> None:
        self._message = message
        self._in_transactions = in_transactions
        delivery: Any = message.delivery
        if delivery is None or delivery.lease is None or delivery.lease.alias == MEMORY:
            raise ConfigurationError("A durable handler needs a queue in a database, and a worker that runs it.")
        self._delivery = delivery
        self._recorder = Recorder(delivery.claimed, delivery.lease)
        self._records: list[Record] = []
        self._is_read = False
        self._place = 0
        self._asked: Counter[tuple[StepKind, str, str]] = Counter()
        self._patches: dict[str, bool] = {}
        #: Whether a task of async code asks for something.
        self._is_busy = False
        #: The step that runs.
        self._running: Record | None = None
        #: The step that has raised an exception in this attempt.
        self._failed: Record | None = None
        #: What ends the attempt, also if the handler catches it.
        self._end: BaseException | None = None
        #: In how many blocks of ``atomic`` the handler began; async code has none.
        self._depth = None if is_async else self._open_blocks()

    # The call.

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Raise what has ended the attempt, also if the handler has caught it."""
        try:
            yield
        except BaseException as error:
            if self._end is None or error is self._end:
                raise
            raise self._end from error
        else:
            if self._end is not None:
                raise self._end
        finally:
            self._end = StepMisused("The attempt has ended: its handler has returned.")

    def accept(self, result: Any) -> None:
        """Accept the message, with what the handler has returned. Raises LeaseLost."""
        self._delivery.keep(result)
        self._recorder.accept(self._delivery.returned)
        self._delivery.settled = True

    # What the handler asks for.

    def step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        asked, reply = self._ask(StepKind.STEP, name)
        if reply.record is not None:
            return decoded(reply.record.result)
        with self._step(asked):
            if self._in_transactions:
                with self._recorder.fenced():
                    done, seconds = _called(asked, function, args, kwargs)
                    self._recorder.write(reply.place, done, seconds=seconds)
                return self._noted(done)
            return self._record(*_called(asked, function, args, kwargs))

    async def astep(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with self._alone("step"):
            asked, reply = await sync_to_async(self._ask)(StepKind.STEP, name)
            if reply.record is not None:
                return decoded(reply.record.result)
            with self._step(asked):
                begin = time.monotonic()
                call = function if iscoroutinefunction(function) else sync_to_async(function)
                result = result_of(await call(*args, **kwargs))
                done = asked._replace(result=encoded(result, name))
                return await sync_to_async(self._record)(done, time.monotonic() - begin)

    def sleep(self, span: timedelta) -> None:
        try:
            length = checked_seconds(span, "The time of a sleep")
        except InvalidMessage as error:
            raise StepMisused(str(error)) from None
        asked, reply = self._ask(StepKind.SLEEP)
        if reply.act in (Turn.WAKE, Turn.RETURN):
            return
        now = clock.now().timestamp()
        until = now + length if reply.record is None else reply.record.until or now
        if until <= now:
            self._record(asked._replace(until=until), None)
            return
        self._raise_if_cancelled()
        with self._ending(), self._held():
            if reply.record is None:
                self._recorder.write(reply.place, asked._replace(outcome=StepOutcome.OPEN, until=until))
            self._recorder.park(ASLEEP, until - now)
        self._suspend()

    async def asleep(self, span: timedelta) -> None:
        with self._alone("sleep"):
            await sync_to_async(self.sleep)(span)

    def wait_for(self, event: str, key: str, timeout_seconds: float | None) -> Any:
        events.check(event, key)
        try:
            wait = None if timeout_seconds is None else checked_seconds(timeout_seconds, "timeout_seconds")
        except InvalidMessage as error:
            raise UnusableEvent(str(error)) from None
        asked, reply = self._ask(StepKind.WAIT, event, key)
        found = reply.record
        if found is None:
            until = None if wait is None else clock.now().timestamp() + wait
            found = self._looked_for(
                asked._replace(outcome=StepOutcome.OPEN, until=until), reply.place, is_new=True
            )
            self._noted(found)
        elif found.outcome is StepOutcome.OPEN:
            found = self._looked_for(found, reply.place, is_new=False)
        if found.outcome is StepOutcome.TIMED_OUT:
            raise EventTimedOut(f"The event {' '.join(filter(None, (event, key)))!r} has not come in time.")
        return decoded(found.result)

    def _looked_for(self, waited: Record, place: int, *, is_new: bool) -> Record:
        """Look for the event; record it, or that it has not come in time. Raises Suspended while it may come."""
        self._raise_if_cancelled()
        alias, now = self._recorder.alias, clock.now()
        with self._ending(), transaction.atomic(using=alias):
            # The event before the message, as an emit locks them.
            event = events.locked(alias, waited.name, waited.key, waited_at=now)
            self._recorder.hold()
            left = None if waited.until is None else waited.until - now.timestamp()
            if events.is_there(event, now):
                waited = waited._replace(outcome=StepOutcome.DONE, result=event.payload)
            elif left is not None and left <= 0:
                waited = waited._replace(outcome=StepOutcome.TIMED_OUT)
            is_open = waited.outcome is StepOutcome.OPEN
            if is_new:
                self._recorder.write(place, waited, event=event.pk if is_open else None)
            elif not is_open:
                self._recorder.close(place, waited.outcome, waited.result)
            if is_open:
                self._recorder.park(events.park_key(event.pk), left)
        if is_open:
            self._suspend()
        return waited

    async def await_for(self, event: str, key: str, timeout_seconds: float | None) -> Any:
        with self._alone("wait"):
            return await sync_to_async(self.wait_for)(event, key, timeout_seconds)

    def patched(self, name: str) -> bool:
        if name in self._patches:
            return self._patches[name]
        asked, reply = self._ask(StepKind.PATCH, name)
        if reply.act is Turn.RUN:
            self._record(asked, None)
        self._patches[name] = reply.act is not Turn.OLD
        return self._patches[name]

    async def apatched(self, name: str) -> bool:
        with self._alone("patch"):
            return await sync_to_async(self.patched)(name)

    @property
    def key(self) -> str:
        """Name the step that runs. Raises StepMisused."""
        if self._running is None:
            raise StepMisused(
                "step_key names the step that runs, and none runs; read it in the function of a step."
            )
        return f"{self._message.id}:{self._running.name}:{self._running.number}"

    # The parts.

    def _ask(self, kind: StepKind, name: str = "", key: str = "") -> tuple[Record, Reply]:
        """Return what is asked for, and what the rule of replay says. Raises what ends the attempt."""
        if self._end is not None:
            raise self._end
        if problem := self._problem(kind, name):
            raise StepMisused(problem)
        if not self._is_read:
            self._records, self._is_read = self._recorder.read(), True
        asked = Record(kind, name, key, self._asked[kind, name, key])
        if self._failed is not None and asked.identity != self._failed.identity:
            raise StepMisused(
                f"The step {self._failed.name!r} has failed, and the handler has caught the error and asks for the"
                f" {kind.value} {name!r}. Failures are not recorded: catch the error in the function of the step,"
                " and return what the handler needs to know."
            )
        reply = replay(self._records, self._place, asked, clock.now().timestamp())
        if reply.act is Turn.REFUSE and reply.record is not None:
            self._end = StepMismatch(
                f"At place {reply.place + 1} {difference(reply.record, asked)}: the code was changed while the"
                " message was under way. Put the old way back, ask message.patched(), or change the records; then"
                " redrive the message."
            )
            raise self._end
        if reply.act is not Turn.OLD:
            self._place = reply.place
        if reply.act not in (Turn.OLD, Turn.RUN):
            self._go_on(asked)
        return asked, reply

    def _problem(self, kind: StepKind, name: object) -> str | None:
        """Return why the handler cannot ask for this now, or None."""
        what = kind.value
        is_named = isinstance(name, str) and (name or kind is StepKind.SLEEP) and is_storable(name, NAME_LENGTH)
        if not is_named:
            return f"The name of a {what} is {shown(name)}; give a text of 1 to {NAME_LENGTH} characters."
        if self._running is not None:
            return (
                f"The step {self._running.name!r} runs, and asks for a {what}: call one after the other, from the"
                " handler itself."
            )
        if self._depth is not None and self._open_blocks() != self._depth:
            return (
                f"The handler asks for a {what} inside of atomic(), which could undo its record. Open transactions"
                " in the functions of steps."
            )
        return None

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Refuse what a task asks for while another task of the handler does: their order may change."""
        if self._is_busy:
            raise StepMisused(
                f"Another task of the handler asks for something, and this one asks for a {what}: await one after"
                " the other."
            )
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    @contextmanager
    def _step(self, asked: Record) -> Iterator[None]:
        self._running = asked
        try:
            with self._ending():
                yield
        except BaseException:
            self._failed = asked
            raise
        else:
            self._failed = None
        finally:
            self._running = None

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Let the attempt end with errors after which it cannot go on, also if the handler catches them."""
        try:
            yield
        except (LeaseLost, UnusableResult) as error:
            self._end = error
            raise

    @contextmanager
    def _held(self) -> Iterator[None]:
        with transaction.atomic(using=self._recorder.alias):
            self._recorder.hold()
            yield

    def _record(self, done: Record, seconds: float | None) -> Any:
        """Record what was done; return the result as it is later."""
        with self._ending(), self._recorder.fenced():
            self._recorder.write(self._place, done, seconds=seconds)
        return self._noted(done)

    def _noted(self, done: Record) -> Any:
        """Take note of a record that has committed; return its result."""
        self._records.append(done)
        self._go_on(done)
        return decoded(done.result)

    def _go_on(self, used: Record) -> None:
        self._place += 1
        self._asked[used.kind, used.name, used.key] += 1

    def _raise_if_cancelled(self) -> None:
        """Let the message be removed, instead of parked, if an operator has cancelled it."""
        if self._message.interruption is Interruption.CANCELLED:
            self._end = Cancelled()
            raise self._end

    def _suspend(self) -> None:
        self._end = Suspended()
        raise self._end

    def _open_blocks(self) -> int:
        """Return in how many blocks of ``atomic`` this thread is."""
        blocks: list[Any] = connections[self._recorder.alias].atomic_blocks
        return len(blocks)


def _called(asked: Record, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Record, float]:
    """Call the function of a step; return its record, and how long it took."""
    begin = time.monotonic()
    result = result_of(function(*args, **kwargs))
    return asked._replace(result=encoded(result, asked.name)), time.monotonic() - begin
