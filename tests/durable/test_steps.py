"""A durable handler goes on where it was: steps, sleeps, changed code, and what it may not do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq.api import consumer, emit, forget_steps, move, publish, redrive, rename_step
from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.handlers import check_transactions, handler_of
from django_mq.durable.models import DurableStep
from django_mq.durable.panel import events_of, show
from django_mq.engine.decisions.durable import NAME_LENGTH
from django_mq.engine.states import State
from django_mq.errors import (
    ConfigurationError,
    NotDurable,
    Reject,
    StepMismatch,
    StepMisused,
    UnusableEvent,
    UnusableResult,
)
from django_mq.models import History, Message, Queue
from django_mq.stores.clock import clock
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    from django_mq.testing import QueueTester

    Handle = Callable[..., None]


class Calls(list[Any]):
    """What was done, each a step that returns what it is given."""

    def __call__(self, value: Any) -> Any:
        self.append(value)
        return value


def test_a_step_runs_once_and_its_result_is_remembered(alias: str, mq: QueueTester, handle: Handle) -> None:
    done, got = Calls(), []

    def ship(message: Any) -> None:
        got.append([message.step("charge", done, ("card", 5)), message.step("mark", done, None)])
        got[-1].append([message.step("line", done, number) for number in range(3)])
        if len(got) < 3:
            raise ValueError("on purpose")

    handle(ship)
    publish("orders", 1)
    drained = mq.drain(raise_errors=False)

    assert done == [("card", 5), None, 0, 1, 2]
    assert got == [[["card", 5], None, [0, 1, 2]]] * 3  # as JSON has it, in the first attempt, too
    assert drained.outcomes == ["retried", "retried", "accepted"]
    assert not DurableStep.objects.using(alias).exists()


def test_a_step_that_fails_runs_again_and_those_before_it_do_not(mq: QueueTester, handle: Handle) -> None:
    done, fails = Calls(), [True, False]

    def charge() -> str:
        done("charge")
        if fails.pop(0):
            raise ValueError("on purpose")
        return "paid"

    def ship(message: Any) -> None:
        message.step("pick", done, "pick")
        done(message.step("charge", charge))

    handle(ship)
    publish("orders", 1)
    mq.drain(raise_errors=False)

    assert done == ["pick", "charge", "charge", "paid"]


def test_a_sleep_parks_the_message_and_charges_no_attempt(alias: str, mq: QueueTester, handle: Handle) -> None:
    done = Calls()

    def ship(message: Any) -> None:
        message.step("begin", done, "begin")
        message.sleep(days=3)
        message.sleep(seconds=0)  # is over at once
        message.step("end", done, f"end in attempt {message.attempt}")

    handle(ship)
    publish("orders", 1, priority=7)

    assert mq.drain().outcomes == ["released"]
    message = Message.objects.using(alias).get()
    assert (message.state, message.attempts, message.priority) == (State.PARKED.value, 0, 7)
    assert mq.drain(ahead=timedelta(days=2)).outcomes == []
    assert mq.drain(ahead=timedelta(days=1)).outcomes == ["accepted"]
    assert done == ["begin", "end in attempt 1"]
    assert History.objects.using(alias).get().outcome == History.Outcome.ACCEPTED


def test_a_clock_that_jumps_back_lets_it_sleep_on_and_forgets_nothing(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    done = Calls()

    def ship(message: Any) -> None:
        message.sleep(hours=1)
        message.step("first", done, "first")
        message.sleep(hours=1)
        message.step("second", done, "second")

    handle(ship)
    publish("orders", 1)
    mq.drain()
    mq.drain(ahead=timedelta(hours=1))
    clock.offset -= timedelta(hours=3)
    Message.objects.using(alias).update(state=State.READY.value, park_key=None, parked_until=None)
    assert mq.drain().outcomes == ["released"]
    mq.drain(ahead=timedelta(hours=5))

    assert done == ["first", "second"]


def test_with_transactional_a_step_and_its_record_commit_together(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    rows = Queue.objects.using(alias)

    def book(name: str, *, fails: bool = False) -> None:
        rows.create(name=name, kind="fifo")
        if fails:
            raise ValueError("on purpose")

    attempts = []

    def ship(message: Any) -> None:
        attempts.append(message)
        message.step("one", book, "one")
        message.step("two", book, "two", fails=len(attempts) == 1)

    handle(ship, transactional=True)
    publish("orders", 1)
    drained = mq.drain(raise_errors=False)

    assert drained.outcomes == ["retried", "accepted"]
    assert sorted(rows.filter(name__in=["one", "two"]).values_list("name", flat=True)) == ["one", "two"]


def test_nothing_is_kept_of_a_step_whose_message_another_worker_has(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    rows, attempts = Queue.objects.using(alias), list[Any]()

    def book() -> None:
        rows.create(name=f"booked {len(attempts)}", kind="fifo")
        if len(attempts) == 1:  # as the claim of another session would
            Message.objects.using(alias).update(claim=10**9)

    def ship(message: Any) -> None:
        attempts.append(message)
        message.step("book", book)

    for transactional in (True, False):
        attempts.clear()
        handle(ship, transactional=transactional)
        publish("orders", 1)
        mq.drain(raise_errors=False)
        # Without a transaction of its own, the write of the step stays; its record does not.
        assert rows.filter(name="booked 1").exists() is not transactional
        assert not DurableStep.objects.using(alias).exists()
        rows.filter(name__startswith="booked").delete()
        Message.objects.using(alias).all().delete()


def test_a_step_has_a_key_that_is_the_same_in_each_attempt(mq: QueueTester, handle: Handle) -> None:
    keys: list[str] = []

    def ship(message: Any) -> None:
        def charge() -> None:
            keys.append(message.step_key)
            if len(keys) == 2:
                raise ValueError("on purpose")

        message.step("charge", charge)
        message.step("charge", charge)

    handle(ship)
    message_id = publish("orders", 1)
    mq.drain(raise_errors=False)

    assert keys == [f"{message_id}:charge:{number}" for number in (0, 1, 1)]


def test_changed_code_makes_a_dead_letter_that_goes_on_after_a_correction(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    done = Calls()

    def old(message: Any) -> None:
        message.step("charge", done, "charge")
        message.sleep(days=1)
        message.step("mail", done, "mail")

    def renamed(message: Any) -> None:
        try:
            message.step("pay", done, "pay")
        except Reject:  # what is caught ends the attempt all the same
            message.step("refund", done, "refund")

    handle(old)
    message_id = publish("orders", 1)
    mq.drain()
    handle(renamed)
    [attempt] = mq.drain(ahead=timedelta(days=1), raise_errors=False)
    reason = Message.objects.using(alias).get().dead_reason
    assert isinstance(attempt.error, StepMismatch)
    assert "At place 1 the step 'charge' is recorded, and the handler asks for the step 'pay'" in reason
    assert done == ["charge"]

    def corrected(message: Any) -> None:
        message.step("pay", done, "pay")
        message.sleep(days=1)
        message.step("mail", done, "mail")

    handle(corrected)
    assert rename_step("orders", "charge", "pay") == 1
    redrive([message_id])
    assert mq.drain().outcomes == ["accepted"]
    assert done == ["charge", "mail"]


def test_a_message_under_way_keeps_the_old_path_of_a_patch(mq: QueueTester, handle: Handle) -> None:
    done = Calls()

    def old(message: Any) -> None:
        message.step("pick", done, f"{message.body} picked")
        message.sleep(days=1)

    def new(message: Any) -> None:
        if message.patched("weigh first"):
            message.step("weigh", done, f"{message.body} weighed")
        message.step("pick", done, f"{message.body} picked")
        message.sleep(days=1)
        if message.patched("weigh last") and not message.patched("weigh first"):
            message.step("weigh", done, f"{message.body} weighed last")
        message.sleep(days=1)

    def without_patch(message: Any) -> None:
        message.step("weigh", done, f"{message.body} weighed")
        message.step("pick", done, f"{message.body} picked")
        message.sleep(days=1)
        message.sleep(days=1)

    handle(old)
    publish("orders", 1)
    mq.drain()
    handle(new)
    publish("orders", 2)
    mq.drain(ahead=timedelta(days=3))
    assert done == ["1 picked", "2 weighed", "2 picked", "1 weighed last"]

    mq.drain(ahead=timedelta(days=3))
    publish("orders", 3)
    mq.drain()
    handle(without_patch)  # no message is under way that keeps the old path
    assert mq.drain(ahead=timedelta(days=1)).outcomes == ["released"]
    assert mq.drain(ahead=timedelta(days=1)).outcomes == ["accepted"]
    assert done[4:] == ["3 weighed", "3 picked"]


def test_what_cannot_be_recorded_makes_a_dead_letter(
    alias: str, mq: QueueTester, handle: Handle, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_RESULT_BYTES": 1000}
    for result, words in ((object(), "cannot be written as JSON"), ("x" * 1000, "1,002 bytes")):
        handle(lambda message, result=result: message.step("big", lambda: result))
        publish("orders", 1)
        [attempt] = mq.drain(raise_errors=False)
        assert isinstance(attempt.error, UnusableResult)
        assert words in str(attempt.error)
        assert attempt.outcome == "dead"
        Message.objects.using(alias).all().delete()


def test_what_a_handler_may_not_ask_for_is_told(alias: str, mq: QueueTester, handle: Handle) -> None:
    def nested(message: Any) -> None:
        message.step("outer", lambda: message.step("inner", int))

    def asleep(message: Any) -> None:
        message.step("outer", lambda: message.sleep(days=1))

    def in_a_transaction(message: Any) -> None:
        with transaction.atomic(using=alias):
            message.step("one", int)

    def caught(message: Any) -> None:
        try:
            message.step("divide", lambda: 1 // 0)
        except ZeroDivisionError:
            message.step("other", int)

    cases: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
        (nested, StepMisused, "The step 'outer' runs, and asks for a step"),
        (asleep, StepMisused, "The step 'outer' runs, and asks for a sleep"),
        (in_a_transaction, StepMisused, "inside of atomic()"),
        (caught, StepMisused, "The step 'divide' has failed"),
        (lambda message: message.step("", int), StepMisused, "The name of a step is ''"),
        (lambda message: message.step("x" * (NAME_LENGTH + 1), int), StepMisused, "1 to 200 characters"),
        (lambda message: message.sleep(days=-1), StepMisused, "The time of a sleep is -86400.0"),
        (lambda message: message.step_key, StepMisused, "none runs"),
        (lambda message: message.wait_for(""), UnusableEvent, "The name of an event is ''"),
        (lambda message: message.wait_for("paid", 7), UnusableEvent, "The key of the event 'paid' is 7"),
        (lambda message: message.wait_for("paid", timeout_seconds="1"), UnusableEvent, "timeout_seconds"),
    ]
    for function, kind, words in cases:
        handle(function, max_attempts=1)
        publish("orders", 1)
        [attempt] = mq.drain(raise_errors=False)
        assert isinstance(attempt.error, kind), (words, attempt.error)
        assert words in str(attempt.error)


def test_a_message_asks_for_nothing_after_its_attempt(mq: QueueTester, handle: Handle) -> None:
    kept: list[Any] = []
    handle(kept.append)
    publish("orders", 1)
    mq.drain()

    with pytest.raises(StepMisused, match="The attempt has ended"):
        kept[0].step("late", int)


def test_what_cannot_be_durable_is_refused_when_it_is_declared(mq: QueueTester) -> None:
    with pytest.raises(ConfigurationError, match="cannot be durable; leave bulk or durable out"):
        consumer("orders", durable=True, bulk=5)(lambda messages: None)
    with pytest.raises(
        ConfigurationError, match="durable of the handler of 'orders' is 1; it must be of type bool"
    ):
        consumer("orders", durable=1)(lambda message: None)
    try:
        consumer("orders", durable=True)(lambda message: None)
        with pytest.raises(ConfigurationError, match="is durable, but its queue is in memory"):
            check_transactions([handler_of("orders")], MEMORY)
    finally:
        handlers.forget("orders")


def test_a_message_of_another_handler_has_no_steps(alias: str, mq: QueueTester) -> None:
    consumer("mails")(lambda message: message.step("one", int))
    try:
        publish("mails", 1)
        [attempt] = mq.drain(raise_errors=False)
    finally:
        handlers.forget("mails")
    assert isinstance(attempt.error, NotDurable)
    assert "This message has no step: declare its handler with durable=True." in str(attempt.error)


def test_records_go_with_a_message_that_is_moved_and_end_with_it(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    done = Calls()

    def ship(message: Any) -> None:
        message.step("charge", done, "charge")
        message.sleep(days=1)

    handle(ship)
    message_id = publish("orders", 1)
    publish("mails", 0)
    mq.drain()
    steps = DurableStep.objects.using(alias)
    move([message_id], "mails")
    assert set(steps.values_list("queue_name", flat=True)) == {"mails"}
    move([message_id], "orders")
    mq.drain(ahead=timedelta(days=1))
    assert done == ["charge"]
    assert not steps.exists()


def test_a_step_can_be_forgotten(alias: str, mq: QueueTester, handle: Handle) -> None:
    done = Calls()

    def ship(message: Any) -> None:
        message.step("charge", done, "charge")
        message.step("mail", done, "mail")
        if len(done) < 4:
            raise Reject("on purpose")

    handle(ship)
    message_id = publish("orders", 1)
    mq.drain()
    assert DurableStep.objects.using(alias).count() == 2  # a dead letter keeps its records
    assert forget_steps("orders", message_id, place=2) == 1
    redrive([message_id])
    mq.drain()
    assert done == ["charge", "mail", "mail"]


def test_the_admin_shows_what_a_handler_has_done_and_waits_for(
    alias: str, mq: QueueTester, handle: Handle, settings: Settings
) -> None:
    def ship(message: Any) -> None:
        message.step("<charge>", lambda: {"card": "1234", "receipt": "<R>"})
        message.sleep(days=1)
        message.wait_for("paid", message.body)

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["card"]}
    handle(ship)
    publish("orders", "7")
    mq.drain()
    row = Message.objects.using(alias).get()
    words = show(None, row)  # type: ignore[arg-type]  # which is not asked
    assert ", the handler sleeps." in words
    for part in (
        "step &lt;charge&gt;",
        "{&quot;card&quot;: &quot;***&quot;, &quot;receipt&quot;: &quot;&lt;R&gt;&quot;}",
    ):
        assert part in words, words

    mq.drain(ahead=timedelta(days=1))
    row.refresh_from_db()
    assert "The handler waits for “paid 7”, without end." in show(None, row)  # type: ignore[arg-type]
    assert [event.bad for event in events_of(None, alias, [row.message_id])] == [False] * 3  # type: ignore[arg-type]
    emit("paid", "7")
    row.refresh_from_db()
    assert "goes on behind the last step when a worker" in show(None, row)  # type: ignore[arg-type]
