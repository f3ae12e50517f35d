"""A drain runs what was published, by the rules of the queues, in the thread and the transaction of the test."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, connections, transaction

from django_mq import signals
from django_mq.api import apublish, cancel, publish
from django_mq.delivery.consumer.handlers import forget
from django_mq.engine.states import State
from django_mq.errors import (
    Decline,
    DrainNeverEnds,
    NoHandler,
    Reject,
    Release,
    Retry,
    UnknownQueue,
    WorkerInTransaction,
)
from django_mq.models import History, Message, Queue, WorkerSession
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from django_mq.testing import QueueTester
from tests.stores.builders import declare
from tests.testing import around

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite", "memory")


def a_fault() -> ValueError:
    return ValueError("on purpose")


def raising(*errors: BaseException | None) -> Callable[[Any], None]:
    """Return a handler that raises these errors, one at a call, None for none."""
    left = list(errors)

    def function(_: Any) -> None:
        error = left.pop(0)
        if error is not None:
            raise error

    return function


def test_it_runs_everything_in_order_with_what_handlers_publish(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    seen: list[str] = []

    def make(message: Any) -> None:
        seen.append(message.body)
        if message.body == "order":
            publish("receipts", "receipt", priority=9)

    handle("orders", make)
    handle("receipts", lambda message: seen.append(message.body))
    publish("orders", "order")
    publish("orders", "later", delay=60)
    publish("orders", "last", priority=0)
    publish("orders", "first", priority=9)

    drained = mq.drain()

    assert seen == ["first", "order", "receipt", "last"]
    assert drained.outcomes == ["accepted"] * 4
    assert [message.body for message in mq.published("orders")] == ["order", "later", "last", "first"]
    assert [message.body for message in mq.published("receipts")] == ["receipt"]
    assert WorkerSession.objects.using(alias).count() == 0
    assert History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count() == 4


def test_a_coroutine_function_uses_the_database_in_the_transaction_of_the_test(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    async def rename(message: Any) -> None:
        await asyncio.sleep(0)
        await Queue.objects.using(alias).filter(name="orders").aupdate(paused_reason=message.body)
        await apublish("mails", message.body)
        if message.attempt == 1:
            await Queue.objects.using(alias).acreate(name="orders")

    declare(shared_store(alias), "orders", backoff_seconds=0.0)
    handle("orders", rename)
    publish("orders", "renamed")

    drained = mq.drain(raise_errors=False)

    assert drained.outcomes == ["retried", "accepted"]
    assert [type(error) for error in drained.errors] == [IntegrityError]
    assert Queue.objects.using(alias).get(name="orders").paused_reason == "renamed"
    assert [message.body for message in mq.published("mails")] == ["renamed", "renamed"]


def test_only_named_queues_are_drained(alias: str, mq: QueueTester, handle: Callable[..., None]) -> None:
    for queue in ("orders", "receipts", "mails"):
        handle(queue, lambda _: None)
        publish(queue, queue)

    drained = mq.drain(["mails", "orders"])

    assert sorted(attempt.queue for attempt in drained) == ["mails", "orders"]
    assert [attempt.queue for attempt in mq.drain("receipts")] == ["receipts"]


def test_a_message_is_retried_by_the_backoff_of_its_queue_and_dies_in_the_end(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    declare(shared_store(alias), "orders", max_attempts=3, backoff_seconds=60.0, backoff_jitter=0.0)
    handle("orders", raising(a_fault(), a_fault(), a_fault()))
    publish("orders", 1)

    assert mq.drain(raise_errors=False).outcomes == ["retried"]
    assert mq.drain().outcomes == []
    mq.move_clock(61)
    assert mq.drain(raise_errors=False).outcomes == ["retried"]
    assert mq.drain(ahead=3600, raise_errors=False).outcomes == ["dead"]
    [letter] = mq.dead_letters("orders")
    assert (letter.body, letter.attempts, letter.dead_reason) == (1, 3, "ValueError: on purpose")


def test_the_clock_goes_from_one_due_message_to_the_next(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    begin, seen = mq.now(), []
    handle("orders", lambda message: seen.append((message.body, round((mq.now() - begin) / timedelta(hours=1)))))
    for hours in (30, 10, 20, 2):
        publish("orders", hours, delay=timedelta(hours=hours))
    publish("orders", "expires", delay=timedelta(hours=12), ttl=timedelta(hours=13))

    mq.drain(ahead=timedelta(days=1))

    assert seen == [(2, 2), (10, 10), ("expires", 12), (20, 20)]
    assert round((mq.now() - begin) / timedelta(hours=1)) == 24


def test_what_expires_while_the_clock_moves_is_not_run(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    handle("orders", lambda _: None)
    publish("orders", "short", ttl=60)
    mq.move_clock(61)

    assert set(mq.drain().outcomes) <= {"expired"}
    assert History.objects.using(alias).filter(outcome=History.Outcome.EXPIRED).count() == 1


CHOICES = {
    "accepted": None,
    "dead": Reject("no"),
    "released": Release("not now"),
    "declined": Decline("not mine"),
    "retried": Retry("later", delay_seconds=60),
}


def test_a_handler_chooses_the_outcome(alias: str, mq: QueueTester, handle: Callable[..., None]) -> None:
    chosen = dict(CHOICES)

    def choose(message: Any) -> None:
        error = chosen.pop(message.body, None)
        if error is not None:
            raise error

    handle("orders", choose)
    for outcome in CHOICES:
        publish("orders", outcome)

    drained = mq.drain()

    found = [(attempt.message.body, attempt.outcome) for attempt in drained]
    assert sorted(found) == sorted([*((each, each) for each in CHOICES), ("released", "accepted")])


def test_what_a_handler_raises_is_raised_when_its_message_is_settled(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    handle("orders", raising(a_fault()))
    publish("orders", 1)

    with pytest.raises(ValueError, match="on purpose") as caught:
        mq.drain()

    assert "the message is retried" in caught.value.__notes__[0]
    [message] = Message.objects.using(alias).all()
    assert (message.attempts, message.state) == (1, State.SCHEDULED)


@pytest.mark.parametrize("error", [None, ValueError("what it raises does not matter")])
def test_a_handler_hears_that_its_message_was_cancelled(
    alias: str, mq: QueueTester, handle: Callable[..., None], error: Exception | None
) -> None:
    steps: list[str] = []

    def stop_between(message: Any) -> None:
        message.raise_if_cancelled()
        steps.append("before")
        [answer] = cancel(message.id, running=True, using=alias)
        steps.append(answer.effect)
        if error is not None:
            raise error
        message.raise_if_cancelled()
        steps.append("after")

    handle("orders", stop_between)
    publish("orders", "ann", using=alias)
    publish("receipts", "bob", using=alias)
    handle("receipts", lambda message: steps.append(f"not cancelled: {not message.cancelled}"))

    assert mq.drain().outcomes == ["cancelled", "accepted"]
    assert steps == ["before", "stopping", "not cancelled: True"]
    assert not Message.objects.using(alias).exists()


def test_a_handler_that_publishes_for_ever_is_named(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    handle("orders", publish_again)
    publish("orders", 1)

    with pytest.raises(DrainNeverEnds, match=r"has run 10, .*publish_again ran 10 times on queue 'orders'"):
        mq.drain(limit=10)

    [message] = Message.objects.using(alias).all()
    assert (message.attempts, message.state) == (0, State.READY)
    assert WorkerSession.objects.using(alias).count() == 0


def publish_again(message: Any) -> None:
    publish("orders", message.body + 1)


def test_groups_and_selectors_and_limits_hold(alias: str, mq: QueueTester, handle: Callable[..., None]) -> None:
    declare(shared_store(alias), "orders", grouping="assigned", max_in_flight=1, backoff_seconds=60.0)
    seen: list[Any] = []
    handle("orders", lambda message: seen.append(("big", message.body)), selector="size > 5")

    def rest(message: Any) -> None:
        seen.append(("rest", message.body))
        if message.body == "a1" and message.attempt == 1:
            raise a_fault()

    handle("orders", rest)
    for body, size in (("a1", 1), ("a2", 9), ("b1", 7), ("b2", 1)):
        publish("orders", body, group_key=body[0], headers={"size": size})

    mq.drain(raise_errors=False)
    before = list(seen)
    mq.drain(ahead=120)

    assert before == [("rest", "a1"), ("big", "b1"), ("rest", "b2")]
    assert seen[3:] == [("rest", "a1"), ("big", "a2")]


def test_middleware_and_signals_see_each_attempt_and_the_connection_stays(
    alias: str, mq: QueueTester, handle: Callable[..., None], settings: Settings
) -> None:
    told: list[str] = []

    def tell(outcome: str, **_: Any) -> None:
        told.append(outcome)

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MIDDLEWARE": ["tests.testing.around.Note"]}
    declare(shared_store(alias), "orders", max_attempts=1)
    handle("orders", raising(None, a_fault()))
    before = connections[alias].connection
    around.seen.clear()
    signals.attempt_finished.connect(tell)
    try:
        publish("orders", 1)
        publish("orders", 2)
        mq.drain(raise_errors=False)
    finally:
        signals.attempt_finished.disconnect(tell)

    assert told == ["accepted", "dead"]
    assert around.seen == [1, 2]
    assert connections[alias].connection is before


def test_on_dead_is_called_for_a_message_that_dies(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    told: list[Any] = []
    handle("orders", raising(a_fault()), max_attempts=1, on_dead=lambda message: told.append(message.body))
    publish("orders", 7)

    assert mq.drain("orders", raise_errors=False).outcomes == ["dead", "accepted"]
    assert told == [7]


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_a_handler_of_many_gets_what_is_ready_and_halves_until_the_poison_is_alone(
    alias: str, mq: QueueTester, handle: Callable[..., None], transactional: bool
) -> None:
    declare(shared_store(alias), "orders", max_attempts=1)
    calls: list[list[int]] = []

    def work(messages: list[Any]) -> None:
        calls.append([message.body for message in messages])
        Queue.objects.using(alias).bulk_create(Queue(name=f"written {message.body}") for message in messages)
        if 3 in calls[-1]:
            raise a_fault()

    handle("orders", work, bulk=4, transactional=transactional)
    handle("mails", lambda message: publish("orders", message.body))
    for number in range(5):
        publish("mails", number)

    if transactional:
        drained = mq.drain(raise_errors=False)
        assert Queue.objects.using(alias).filter(name__startswith="written").count() == 4
    else:
        with pytest.raises(IntegrityError):
            mq.drain()  # what the first call has written is there when its half is called
        return
    assert calls == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3], [4]]
    assert drained.of("orders").outcomes == ["accepted", "accepted", "accepted", "dead", "accepted"]
    assert [letter.body for letter in mq.dead_letters("orders")] == [3]


def test_a_handler_of_many_keeps_the_order_of_groups(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    declare(shared_store(alias), "orders", grouping="assigned", backoff_seconds=60.0)
    calls: list[list[str]] = []

    def work(messages: list[Any]) -> list[BaseException | None]:
        calls.append([message.body for message in messages])
        return [Release(delay_seconds=60) if each.body == "a1" and len(calls) == 1 else None for each in messages]

    handle("orders", work, bulk=10)
    for body in ("a1", "a2", "b1"):
        publish("orders", body, group_key=body[0])

    mq.drain()
    mq.drain(ahead=120)

    assert calls[0] == ["a1", "a2", "b1"]
    assert [body for call in calls[1:] for body in call] == ["a1"]


def test_a_transactional_handler_and_its_message_are_one(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    declare(shared_store(alias), "orders", backoff_seconds=0.0)

    def write(message: Any) -> None:
        Queue.objects.using(alias).create(name=f"written {message.attempt}")
        if message.attempt == 1:
            raise a_fault()

    handle("orders", write, transactional=True)
    publish("orders", 1)

    assert mq.drain(raise_errors=False).outcomes == ["retried", "accepted"]
    assert Queue.objects.using(alias).filter(name__startswith="written").get().name == "written 2"


def test_functions_of_on_commit_are_called_as_after_a_commit(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    seen: list[str] = []

    def note(word: str) -> Callable[[], None]:
        return lambda: seen.append(word)

    def work(message: Any) -> None:
        transaction.on_commit(note("at once"), using=alias)
        seen.append("before")
        with transaction.atomic(using=alias, durable=True):
            transaction.on_commit(lambda: publish("mails", 1), using=alias)
            transaction.on_commit(note("after the block"), using=alias)
            with transaction.atomic(using=alias):
                transaction.on_commit(note("after the outer block"), using=alias)
            seen.append("in the block")
        seen.append("end")

    def undone(message: Any) -> None:
        with suppress(ValueError), transaction.atomic(using=alias):
            transaction.on_commit(note("never"), using=alias)
            raise a_fault()

    handle("orders", work)
    handle("mails", undone)
    with transaction.atomic(using=alias):
        transaction.on_commit(lambda: publish("orders", 1), using=alias)

    mq.drain()

    blocks = ["in the block", "after the block", "after the outer block"]
    assert seen == ["at once", "before", *blocks, "end"]
    assert [len(mq.published(queue)) for queue in ("orders", "mails")] == [1, 1]
    assert not connections[alias].needs_rollback


def test_a_function_of_on_commit_that_fails_fails_the_handler_that_is_not_settled(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    def work(_: Any) -> None:
        with transaction.atomic(using=alias):
            transaction.on_commit(raise_it, using=alias)

    def settled(_: Any) -> None:
        transaction.on_commit(raise_it, using=alias)

    handle("orders", work)
    handle("mails", settled, transactional=True)
    publish("orders", 1)
    publish("mails", 1)

    drained = mq.drain(raise_errors=False)

    assert {attempt.queue: attempt.outcome for attempt in drained} == {"orders": "retried", "mails": "accepted"}


def raise_it() -> None:
    raise a_fault()


def test_a_failed_statement_of_a_handler_undoes_only_itself(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    declare(shared_store(alias), "orders", max_attempts=1)
    queues = Queue.objects.using(alias)

    def write(message: Any) -> None:
        queues.create(name=f"{message.body} 1")
        with suppress(IntegrityError):
            queues.create(name=f"{message.body} 1")
        with transaction.atomic(using=alias):
            queues.create(name=f"{message.body} 2")
        with suppress(IntegrityError), transaction.atomic(using=alias):
            queues.create(name=f"{message.body} 3")
            queues.create(name=f"{message.body} 1")
        publish("mails", 1)
        if message.body == "fails":
            queues.create(name=f"{message.body} 1")

    handle("orders", write)
    publish("orders", "returns")
    publish("orders", "fails")

    drained = mq.drain(raise_errors=False)

    assert drained.outcomes == ["accepted", "dead"]
    assert [type(error) for error in drained.errors] == [IntegrityError]
    assert len(mq.published("mails")) == 2
    names = queues.filter(name__regex="s [123]$").order_by("name").values_list("name", flat=True)
    assert list(names) == ["fails 1", "fails 2", "returns 1", "returns 2"]


def test_it_refuses_what_cannot_be_drained(alias: str, mq: Any, handle: Callable[..., None]) -> None:
    handle("orders", lambda _: None)

    with pytest.raises(NoHandler, match="'receipts'"):
        mq.drain("receipts")
    with pytest.raises(UnknownQueue, match="typo"):
        mq.published("typo")
    with pytest.raises(WorkerInTransaction, match=r"outside of atomic"), transaction.atomic(using=alias):
        mq.drain()
    for move in (mq.move_clock, lambda by: mq.drain(ahead=by)):
        with pytest.raises(ValueError, match="only moves on"):
            move(-1)
        for time in ("soon", float("nan"), float("inf"), None):
            with pytest.raises(ValueError, match="is no time"):
                move(time)
    for limit in (0, -1, 1.5, "10"):
        with pytest.raises(ValueError, match=r"limit is .*1 or more"):
            mq.drain(limit=limit)
    with pytest.raises(UnknownQueue, match="3"):
        mq.drain(3)


def test_the_end_of_the_block_puts_the_clock_right() -> None:
    with QueueTester() as mq:
        mq.move_clock(timedelta(days=3))

    assert clock.offset == timedelta(0)


def test_it_calls_on_dead_for_what_a_handler_has_failed_for_good(
    alias: str, mq: QueueTester, handle: Callable[..., None]
) -> None:
    told: list[Any] = []
    handle("orders", raising(a_fault(), a_fault()), max_attempts=2, backoff_seconds=0, on_dead=told.append)
    id_ = publish("orders", 7)

    mq.drain(raise_errors=False)
    mq.drain()
    forget("orders.on_dead")

    assert [(each.body, each.correlation_id) for each in told] == [(7, str(id_))]
