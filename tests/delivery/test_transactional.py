"""Handlers that write and acknowledge in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.api import OutgoingMessage, publish, publish_many
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import ConfigurationError, LeaseLost
from django_mq.models import History, Message, Queue
from django_mq.notifications.base import Wake, queue_topic
from django_mq.signals import attempt_finished
from django_mq.stores.records import ClaimRequest, Lease, Settlement
from django_mq.stores.registry import MEMORY, shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy, running
from tests.delivery.conftest import Ear
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite", "mariadb", once="postgresql")


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queue ``orders``, which repeats failures at once."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
    declare(shared_store(committed_database), "orders")
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0)
    return committed_database


class Book:
    """A handler that leaves a row for each message: a queue of that name will do."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.calls = 0

    def __call__(self, message: Any) -> None:
        self.calls += 1
        assert connections[self.alias].in_atomic_block
        Queue.objects.using(self.alias).create(name=f"booked {message.body}", kind="fifo")

    @property
    def rows(self) -> int:
        return Queue.objects.using(self.alias).filter(name__startswith="booked").count()


def outcomes(alias: str) -> list[int]:
    return list(History.objects.using(alias).values_list("outcome", flat=True))


def test_the_handlers_writes_and_the_acknowledgement_are_committed_together(alias: str) -> None:
    book = Book(alias)
    for number in range(10):
        publish("orders", number)

    with running(a_handler(book, transactional=True), using=alias) as worker:
        wait_until(lambda: not Message.objects.using(alias).exists())
        wait_until(lambda: worker.session.held == 0)

    assert (book.calls, book.rows) == (10, 10)
    assert outcomes(alias) == [History.Outcome.ACCEPTED] * 10


def test_a_failing_handler_leaves_nothing_behind_and_is_called_again(alias: str) -> None:
    book = Book(alias)

    def handle(message: Any) -> None:
        book(message)
        if book.calls < 3:
            raise ValueError("not yet")

    publish("orders", 1)
    with running(a_handler(handle, transactional=True), using=alias):
        wait_until(lambda: not Message.objects.using(alias).exists())

    assert (book.calls, book.rows) == (3, 1)


def test_a_handler_that_returns_an_awaitable_leaves_nothing_behind(alias: str) -> None:
    book = Book(alias)

    async def later() -> None:
        """Never awaited."""

    def handle(message: Any) -> Any:
        book(message)
        return later() if book.calls == 1 else None

    publish("orders", 1)
    with running(a_handler(handle, transactional=True), using=alias):
        wait_until(lambda: not Message.objects.using(alias).exists())

    assert (book.calls, book.rows) == (2, 1)


def test_nothing_is_kept_of_a_handler_whose_message_was_taken_away(alias: str) -> None:
    book = Book(alias)

    def handle(message: Any) -> None:
        book(message)
        if book.calls == 1:
            # As another session would: on SQLite no other can write while this transaction is open.
            shared_store(alias).operations.release_held(
                list(Message.objects.using(alias).values_list("id", flat=True))
            )

    publish("orders", 1)
    with running(a_handler(handle, transactional=True), using=alias):
        wait_until(lambda: not Message.objects.using(alias).exists())

    assert (book.calls, book.rows) == (2, 1)
    assert outcomes(alias) == [History.Outcome.ACCEPTED]


def test_what_it_publishes_belongs_to_the_same_transaction(alias: str) -> None:
    declare(shared_store(alias), "letters")
    calls = []

    def handle(message: Any) -> None:
        calls.append(message.body)
        publish("letters", message.body)
        if len(calls) == 1:
            raise ValueError("after publishing")

    publish("orders", "a")
    with running(a_handler(handle, transactional=True), using=alias):
        wait_until(lambda: not Message.objects.using(alias).filter(queue__name="orders").exists())

    assert Message.objects.using(alias).filter(queue__name="letters").count() == 1


def test_a_committed_attempt_is_accepted_whatever_a_function_of_on_commit_raises(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    book, seen = Book(alias), []

    def handle(message: Any) -> None:
        book(message)
        transaction.on_commit(lambda: 1 // 0, using=alias)  # type: ignore[arg-type, return-value]

    def note(outcome: str, error: Any, **_: Any) -> None:
        seen.append((outcome, error))

    attempt_finished.connect(note)
    publish("orders", 1)
    try:
        with running(a_handler(handle, transactional=True), using=alias):
            wait_until(lambda: seen)
    finally:
        attempt_finished.disconnect(note)

    assert (seen, book.rows, outcomes(alias)) == ([("accepted", None)], 1, [History.Outcome.ACCEPTED])
    assert "A function of on_commit() or a middleware has failed after" in caplog.text
    assert "failed on message" not in caplog.text


@pytest.mark.parametrize(
    ("options", "credit_bytes"),
    [({"max_in_flight": 1}, None), ({"grouping": "balanced"}, None), ({}, 3)],
    ids=["limit", "group", "bytes"],
)
def test_a_message_that_waits_for_another_follows_it_at_once(
    committed_database: str, settings: Settings, options: dict[str, Any], credit_bytes: int | None
) -> None:
    # Without a hint, and long before the next poll: as after any other settlement.
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        **dict.fromkeys(("POLL_SECONDS", "SAFETY_POLL_SECONDS", "SESSION_SECONDS"), 3600.0),
    }
    alias = committed_database
    create_queue("orders", options, using=alias)
    publish_many([OutgoingMessage(queue="orders", body="x", group_key="g") for _ in range(20)])

    with running(a_handler(lambda _: None, transactional=True, credit_bytes=credit_bytes), using=alias, threads=1):
        wait_until(lambda: not Message.objects.using(alias).exists())

    assert outcomes(alias) == [History.Outcome.ACCEPTED] * 20


def test_idle_workers_of_a_queue_with_rules_hear_of_an_acknowledgement(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "HINTS": "none"}
    edit_queue("orders", {"max_in_flight": 1}, using=alias)
    publish("orders", 1)
    wake = Wake()
    session = Session(alias, kind="native", wake=wake, driver=Driver(queues=lambda: ("orders",)))
    (claimed,) = session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1, slots=1)).claimed
    ear = Ear("orders")

    session.settle(Settlement(claimed.id, claimed.claim, Verdict.ACCEPT), is_written=True)
    assert session.held == 0
    session.flush()

    assert ear.heard == {queue_topic("orders")}
    for each in (ear, session, wake):
        each.close()  # type: ignore[attr-defined]


def test_an_attempt_without_a_lease_on_its_message_is_judged_as_failed(alias: str) -> None:
    book = Book(alias)
    attempt = Delivery(a_claimed(body=b"1"), a_handler(book, transactional=True), a_policy(), Lease(alias, 7))

    settlement = attempt.run()

    assert isinstance(attempt.error, LeaseLost)
    assert (settlement.verdict, attempt.settled, book.rows) == (Verdict.RELEASE, False, 0)
    assert not transaction.get_connection(alias).in_atomic_block


def test_a_transactional_handler_of_queues_in_memory_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="in memory"):
        Worker([a_handler(transactional=True)], threads=1, using=MEMORY)
