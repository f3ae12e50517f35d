"""Handlers of many, on each database: what they get, and what becomes of the messages."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_mq.api import OutgoingMessage, cancel, pause, publish, publish_many
from django_mq.bulk.pool import pool_for
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.retries import Retries
from django_mq.errors import Decline, Reject, Release, Retry
from django_mq.models import Attempt, Consumer, History, Message, Queue
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.delivery.codecs import ReceivedMessage

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queue ``orders``, which repeats failures at once."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
    declare(shared_store(committed_database), "orders")
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0, max_attempts=2)
    return committed_database


class Calls:
    """A handler of many that remembers the bodies of each call, and fails on those of ``poison``."""

    def __init__(self, poison: tuple[Any, ...] = (), error: type[Exception] = ValueError) -> None:
        self.poison = poison
        self.error = error
        self.bodies: list[list[Any]] = []

    def __call__(self, messages: list[ReceivedMessage]) -> None:
        bodies = [message.body for message in messages]
        self.bodies.append(bodies)
        if found := set(self.poison).intersection(bodies):
            raise self.error(f"cannot handle {found}")

    @property
    def done(self) -> list[Any]:
        return [body for bodies in self.bodies for body in bodies]


@contextmanager
def handling(
    function: Callable[[list[ReceivedMessage]], Any],
    *,
    using: str,
    bulk: int = 8,
    bulk_seconds: float = 0.05,
    **options: Any,
) -> Iterator[Worker]:
    """A worker of a handler of many, in a thread of its own."""
    handler = replace(a_handler(function, credit=0, **options), bulk=bulk, bulk_seconds=bulk_seconds)
    worker = Worker([handler], threads=bulk, pool=pool_for(handler), using=using)
    thread = threading.Thread(target=worker.run, name="bulk worker under test")
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the worker did not stop"


def wait_until_empty(alias: str) -> None:
    wait_until(lambda: not Message.objects.using(alias).filter(state__in=[0, 1, 2]).exists())


def outcomes(alias: str) -> dict[int, int]:
    """Return how often each outcome is in the history."""
    found = list(History.objects.using(alias).values_list("outcome", flat=True))
    return {outcome: found.count(outcome) for outcome in found}


def fill(alias: str, number: int, **options: Any) -> None:
    publish_many([OutgoingMessage(queue="orders", body=each, **options) for each in range(number)], using=alias)


def test_messages_come_in_lists_in_their_order_and_are_accepted(alias: str) -> None:
    calls = Calls()
    fill(alias, 20)

    with handling(calls, using=alias):
        wait_until_empty(alias)

    assert calls.done == list(range(20))
    assert [len(bodies) for bodies in calls.bodies] == [8, 8, 4]
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 20}


def test_a_bulk_begins_when_it_is_full_and_otherwise_when_its_first_message_has_waited(alias: str) -> None:
    calls = Calls()
    with handling(calls, using=alias, bulk=3, bulk_seconds=3600) as worker:
        publish("orders", "a", using=alias)
        publish("orders", "b", using=alias)
        wait_until(lambda: worker.session.held == 2)
        assert calls.bodies == []
        publish("orders", "c", using=alias)
        wait_until_empty(alias)
        assert calls.bodies == [["a", "b", "c"]]
        publish("orders", "d", using=alias)
        wait_until(lambda: worker.session.held == 1)
    assert len(calls.bodies) == 1
    assert Message.objects.using(alias).get().state == Message.Status.READY

    with handling(calls, using=alias, bulk=3, bulk_seconds=0):
        wait_until_empty(alias)
    assert calls.bodies[1:] == [["d"]]


def test_operators_see_how_many_a_handler_takes(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 6}  # consumers are written at each renewal
    with handling(Calls(), using=alias, bulk=30):
        wait_until(lambda: Consumer.objects.using(alias).exists())
        consumer = Consumer.objects.using(alias).get()

    assert consumer.handler.endswith("Calls (up to 30 at a time)")
    assert consumer.credit_limit == 60


def test_a_more_urgent_message_goes_into_the_bulk_that_waits(alias: str) -> None:
    calls = Calls()
    with handling(calls, using=alias, bulk=3, bulk_seconds=3600) as worker:
        publish("orders", "a", using=alias)
        publish("orders", "b", using=alias)
        wait_until(lambda: worker.session.held == 2)
        publish("orders", "urgent", priority=9, using=alias)
        wait_until_empty(alias)

    assert calls.bodies == [["urgent", "a", "b"]]


@pytest.mark.parametrize("transactional", [False, True])
def test_only_the_message_at_fault_is_charged(alias: str, transactional: bool) -> None:
    calls = Calls(poison=(5,))
    fill(alias, 8)

    with handling(calls, using=alias, transactional=transactional):
        wait_until_empty(alias)

    [dead] = Message.objects.using(alias).all()
    assert (dead.attempts, dead.state) == (2, Message.Status.DEAD)
    assert [attempt.number for attempt in Attempt.objects.using(alias).order_by("id")] == [1, 2]
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 7}
    assert calls.bodies == [[*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5], [6, 7], [5]]


@pytest.mark.parametrize(
    ("error", "calls", "left"),
    [(Reject, 5, {}), (Retry, 6, {}), (Release, 2, {}), (Decline, 1, {1: 4})],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_outcome_that_is_raised_charges_no_message_but_one_alone(
    alias: str, error: type[Exception], calls: int, left: dict[int, int]
) -> None:
    poison = Calls(poison=(2,), error=error)

    def handle(messages: list[ReceivedMessage]) -> None:
        if error is Release and poison.bodies:
            poison.poison = ()
        poison(messages)

    fill(alias, 4)
    with handling(handle, using=alias) as worker:
        wait_until(lambda: len(poison.bodies) >= calls)
        wait_until(lambda: worker.session.held == 0)

    assert len(poison.bodies) == calls
    assert [message.attempts for message in Message.objects.using(alias).filter(state=1)] == [0] * left.get(1, 0)
    dead = Message.objects.using(alias).filter(state=Message.Status.DEAD)
    assert [message.attempts for message in dead] == {Reject: [1], Retry: [2]}.get(error, [])


def test_a_handler_may_decide_on_each_message(alias: str) -> None:
    seen: list[list[int]] = []

    def handle(messages: list[ReceivedMessage]) -> list[Exception | None]:
        seen.append([message.body for message in messages])
        return [Reject("no") if message.body % 3 == 0 else None for message in messages]

    fill(alias, 8)
    for transactional in (False, True):
        with handling(handle, using=alias, transactional=transactional):
            wait_until_empty(alias)
        dead = Message.objects.using(alias)
        assert [(each.dead_reason, each.attempts) for each in dead] == [("Reject: no", 1)] * 3
        dead.all().delete()
        fill(alias, 8)
    assert seen == [[*range(8)]] * 2
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 10}


@pytest.mark.parametrize("returned", [5, [None], {"a": 1}, ["a", "b"], "ab"], ids=repr)
def test_what_a_handler_returns_by_mistake_is_an_error(alias: str, returned: Any) -> None:
    Queue.objects.using(alias).update(max_attempts=1)
    fill(alias, 2)
    with handling(lambda messages: returned, using=alias):
        wait_until_empty(alias)

    reasons = {message.dead_reason for message in Message.objects.using(alias)}
    assert all(reason.startswith("WrongOutcomes: The handler returned") for reason in reasons)
    assert len(reasons) == (0 if returned == [None] else 1)


def test_a_message_that_cannot_be_read_is_dead_before_the_handler_is_called(alias: str) -> None:
    calls = Calls()
    fill(alias, 4)
    Message.objects.using(alias).filter(id=Message.objects.using(alias).order_by("id")[1].id).update(body=b"{")

    with handling(calls, using=alias):
        wait_until_empty(alias)

    assert calls.bodies == [[0, 2, 3]]
    assert Message.objects.using(alias).get().dead_reason.startswith("CorruptMessage")


class Book:
    """A handler of many that leaves a row for each message, one by one: a queue of that name will do."""

    def __init__(self, alias: str, poison: tuple[int, ...] = ()) -> None:
        self.alias = alias
        self.calls = Calls(poison)

    def __call__(self, messages: list[ReceivedMessage]) -> None:
        assert connections[self.alias].in_atomic_block
        for message in messages:
            Queue.objects.using(self.alias).create(name=f"booked {message.body}", kind="fifo")
        self.calls(messages)

    @property
    def rows(self) -> list[str]:
        booked = Queue.objects.using(self.alias).filter(name__startswith="booked").order_by("name")
        return [name.removeprefix("booked ") for name in booked.values_list("name", flat=True)]


def test_the_effects_of_a_transactional_bulk_happen_once_with_its_acknowledgements(alias: str) -> None:
    book = Book(alias, poison=(3,))
    fill(alias, 8)

    with handling(book, using=alias, transactional=True):
        wait_until_empty(alias)

    assert book.rows == ["0", "1", "2", "4", "5", "6", "7"]
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 7}


def test_a_bulk_of_which_one_message_was_taken_away_is_repeated_without_it(alias: str) -> None:
    book = Book(alias)

    def handle(messages: list[ReceivedMessage]) -> None:
        book(messages)
        if len(book.calls.bodies) == 1:
            # As another session would: on SQLite no other can write while this transaction is open.
            row = Message.objects.using(alias).get(message_id=messages[1].id).id
            shared_store(alias).operations.release_held([row])

    fill(alias, 4)
    with handling(handle, using=alias, transactional=True):
        wait_until_empty(alias)

    assert book.rows == ["0", "1", "2", "3"]
    assert book.calls.bodies[:2] == [[0, 1, 2, 3], [0, 2, 3]]
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 4}


def test_the_messages_of_a_group_are_one_bulk_in_their_order_and_go_back_behind_one_that_fails(alias: str) -> None:
    edit_queue("orders", {"grouping": "shared", "max_attempts": 3, "backoff_seconds": 0.01}, using=alias)
    calls = Calls()
    failed: list[int] = []

    def handle(messages: list[ReceivedMessage]) -> None:
        calls(messages)
        if 2 in calls.bodies[-1] and len(failed) < 4:  # three calls until it stands alone
            failed.append(2)
            raise ValueError("not yet")

    publish_many(
        [OutgoingMessage(queue="orders", body=number, group_key="ab"[number % 2]) for number in range(8)],
        using=alias,
    )
    with handling(handle, using=alias):
        wait_until_empty(alias)

    assert calls.bodies[0] == [*range(8)]
    done = [body for body in calls.done[8:] if body % 2 == 0]
    assert done[-3:] == [2, 4, 6]
    assert Attempt.objects.using(alias).count() == 1
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 8}


def test_a_call_that_exceeds_the_time_limit_is_halved(alias: str) -> None:
    calls, gate = Calls(), threading.Event()

    def handle(messages: list[ReceivedMessage]) -> None:
        calls(messages)
        if 1 in calls.bodies[-1]:
            gate.wait(PATIENCE_SECONDS)

    Queue.objects.using(alias).update(max_attempts=1)
    fill(alias, 2)
    with handling(handle, using=alias, time_limit_seconds=0.3):
        wait_until_empty(alias)
        gate.set()

    assert calls.bodies == [[0, 1], [0], [1]]
    assert Message.objects.using(alias).get().dead_reason.startswith("HandlerTimeout")


def test_a_worker_that_stops_gives_back_what_waits_for_its_half(alias: str) -> None:
    calls, begun, gate = Calls(), threading.Event(), threading.Event()

    def handle(messages: list[ReceivedMessage]) -> None:
        calls(messages)
        if len(messages) > 2:
            raise ValueError("too many")
        begun.set()
        gate.wait(PATIENCE_SECONDS)

    fill(alias, 4)
    with handling(handle, using=alias) as worker:
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop()
        wait_until(lambda: Message.objects.using(alias).filter(state=Message.Status.READY).count() == 2)
        gate.set()

    assert calls.bodies == [[0, 1, 2, 3], [0, 1]]
    left = Message.objects.using(alias).order_by("id")
    assert [(message.body, message.state, message.attempts) for message in left] == [
        (b"2", Message.Status.READY, 0),
        (b"3", Message.Status.READY, 0),
    ]


def test_a_paused_queue_gets_back_what_waits_for_a_bulk(alias: str) -> None:
    calls = Calls()
    with handling(calls, using=alias, bulk_seconds=3600) as worker:
        publish("orders", 1, using=alias)
        wait_until(lambda: worker.session.held == 1)
        pause("orders", using=alias)
        wait_until(lambda: Message.objects.using(alias).get().state == Message.Status.READY)

    assert calls.bodies == []


def test_a_message_that_is_cancelled_leaves_the_call_that_runs(alias: str) -> None:
    calls, begun = Calls(), threading.Event()

    def handle(messages: list[ReceivedMessage]) -> None:
        calls(messages)
        begun.set()
        if len(messages) == 3:
            wait_until(lambda: any(message.cancelled for message in messages))
            for message in messages:
                message.raise_if_cancelled()

    fill(alias, 3)
    with handling(handle, using=alias):
        assert begun.wait(PATIENCE_SECONDS)
        row = Message.objects.using(alias).order_by("id")[1]
        cancel(row.message_id, running=True, using=alias)
        wait_until_empty(alias)

    assert calls.bodies == [[0, 1, 2], [0, 2]]
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 2, History.Outcome.CANCELLED: 1}


def test_an_error_of_release_on_gives_all_messages_back_uncounted(alias: str) -> None:
    calls = Calls(poison=(1,), error=ConnectionError)
    handler = replace(
        a_handler(calls, credit=0), bulk=4, bulk_seconds=0.05, retries=Retries(release_on=ConnectionError)
    )
    fill(alias, 4)

    worker = Worker([handler], threads=4, pool=pool_for(handler), using=alias)
    worker.run(until_empty=True)

    assert calls.bodies == [[0, 1, 2, 3]]
    waiting = Message.objects.using(alias)
    assert {(message.state, message.attempts) for message in waiting} == {(Message.Status.SCHEDULED, 0)}


def test_suspects_come_alone_and_before_no_other_message_is_held(alias: str) -> None:
    calls = Calls()
    fill(alias, 4)
    Message.objects.using(alias).filter(body__in=[b"1", b"2"]).update(suspect=True)

    with handling(calls, using=alias):
        wait_until_empty(alias)

    assert calls.bodies == [[0], [1], [2], [3]]
    assert outcomes(alias) == {History.Outcome.ACCEPTED: 4}


@pytest.mark.parametrize("credit_bytes", [250, 350], ids=["little is left", "the next one is too large"])
def test_a_bulk_does_not_wait_for_more_than_its_byte_credit(alias: str, credit_bytes: int) -> None:
    calls = Calls()
    sizes = (100, 100, 200, 100, 100, 200)
    publish_many([OutgoingMessage(queue="orders", body="x" * (size - 2)) for size in sizes], using=alias)

    with handling(calls, using=alias, bulk=6, bulk_seconds=3600, credit_bytes=credit_bytes) as worker:
        wait_until(lambda: worker.session.held == 0 and len(calls.done) >= 5)

    assert [len(bodies) for bodies in calls.bodies][:2] == [2, 1] if credit_bytes == 250 else [2, 2]
