"""Publishing: what is written, when, and that the transaction of the caller decides."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.db import connections, transaction

from django_mq import process
from django_mq.api import OutgoingMessage, apublish, apublish_many, publish, publish_many
from django_mq.delivery import publisher
from django_mq.delivery.batch import publish_batch
from django_mq.delivery.operator.drift import differences
from django_mq.delivery.operator.queue_editor import create_queue
from django_mq.delivery.publisher import declaring
from django_mq.delivery.queues import declare, declare_all
from django_mq.engine.options import QueueOptions
from django_mq.engine.states import State
from django_mq.errors import DuplicateMessage, InvalidMessage, QueueClosed, QueueFull, UnknownQueue
from django_mq.inprocess.memory.broker import empty_brokers
from django_mq.models import Message, Queue
from django_mq.notifications.base import News
from django_mq.stores.connections import MOST_THREADS
from django_mq.stores.registry import MEMORY, shared_store
from tests.support.apart import close_connections
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.stores.base import Store
    from tests.delivery.conftest import Ear

pytestmark = pytest.mark.on("sqlite")


def rows(alias: str) -> list[Message]:
    return list(Message.objects.using(alias).select_related("queue").order_by("id"))


@contextmanager
def rolled_back(alias: str) -> Iterator[None]:
    """A transaction, or a savepoint of one, that fails in the end."""
    with suppress(InterruptedError), transaction.atomic(using=alias):
        yield
        raise InterruptedError


def test_a_message_is_written_as_it_was_given(database: str, orders: str) -> None:
    message_id = publish(
        orders,
        {"total": 3},
        priority=7,
        headers={"tenant": "a"},
        correlation_id="c-1",
        type="order",
        group_key="g",
    )

    (row,) = rows(database)
    assert (row.message_id, row.queue.name, row.priority, row.state) == (message_id, orders, 7, State.READY)
    assert (bytes(row.body), row.content_type) == (b'{"total":3}', "application/json")
    assert (row.headers, row.correlation_id, row.type, row.group_key) == ({"tenant": "a"}, "c-1", "order", "g")


def test_a_delayed_message_is_scheduled_by_the_databases_clock(database: str, orders: str) -> None:
    publish(orders, delay=timedelta(minutes=5))

    (row,) = rows(database)
    assert row.state == State.SCHEDULED
    assert row.deliver_at == row.published_at + timedelta(minutes=5)


def test_a_time_in_another_zone_is_the_same_time(database: str, orders: str) -> None:
    nine = datetime.fromisoformat("2031-01-31T09:00+05:30")

    publish(orders, deliver_at=nine)

    assert rows(database)[0].deliver_at == nine


def test_a_past_time_means_at_once(database: str, orders: str) -> None:
    publish(orders, deliver_at=datetime(2001, 1, 1, tzinfo=UTC))

    assert rows(database)[0].state == State.READY


def test_a_message_ends_with_its_time_to_live(database: str, orders: str) -> None:
    publish(orders, ttl=60)

    (row,) = rows(database)
    assert row.expires_at == row.published_at + timedelta(seconds=60)


def test_a_given_message_id_is_kept_in_whatever_form(orders: str) -> None:
    given = uuid4()

    assert publish(orders, message_id=str(given)) == given


def test_ids_grow_with_time(orders: str) -> None:
    ids = [publish(orders) for _ in range(3)]

    assert all(isinstance(given, UUID) and given.version == 7 for given in ids)
    assert len(set(ids)) == 3


# The caller's transaction.


def test_a_rolled_back_transaction_leaves_nothing(database: str, orders: str) -> None:
    with rolled_back(database):
        publish(orders)

    assert rows(database) == []


def test_a_rolled_back_savepoint_takes_only_its_own_messages(database: str, orders: str) -> None:
    with transaction.atomic(using=database):
        kept = publish(orders)
        with rolled_back(database):
            publish(orders)

    assert [row.message_id for row in rows(database)] == [kept]


def test_a_refused_publish_leaves_the_transaction_usable(database: str, orders: str) -> None:
    with transaction.atomic(using=database):
        first = publish(orders)
        with pytest.raises(DuplicateMessage):
            publish(orders, message_id=first)
        with pytest.raises(UnknownQueue):
            publish("nowhere")
        second = publish(orders)

    assert [row.message_id for row in rows(database)] == [first, second]


# Hints.


def test_the_hint_waits_for_the_commit(committed_database: str, ear: Ear) -> None:
    declare(shared_store(committed_database), "orders")

    with transaction.atomic(using=committed_database):
        publish("orders")
        assert ear.heard == set()

    assert ear.heard == {"q:orders"}


def test_no_hint_follows_a_rollback(committed_database: str, ear: Ear) -> None:
    declare(shared_store(committed_database), "orders")

    with rolled_back(committed_database):
        publish("orders")

    assert ear.heard == set()


def test_no_hint_follows_a_savepoint_that_was_rolled_back(committed_database: str, ear: Ear) -> None:
    declare(shared_store(committed_database), "orders")

    with transaction.atomic(using=committed_database), rolled_back(committed_database):
        publish("orders")

    assert ear.heard == set()


def test_outside_a_transaction_the_hint_follows_at_once(committed_database: str, ear: Ear) -> None:
    declare(shared_store(committed_database), "orders")

    publish("orders")

    assert ear.heard == {"q:orders"}


def test_a_transactions_hints_travel_together(database: str, django_capture_on_commit_callbacks: object) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)

    with django_capture_on_commit_callbacks(using=database) as callbacks:  # type: ignore[operator]
        for name in ("orders", "mails", "orders"):
            publish(name)

    assert [callback.news for callback in callbacks] == [{"orders": News(messages=2), "mails": News(messages=1)}]


def test_a_handler_that_fails_after_commit_does_not_keep_the_hint_back(committed_database: str, ear: Ear) -> None:
    declare(shared_store(committed_database), "orders")

    def stumble() -> None:
        raise RuntimeError

    with transaction.atomic(using=committed_database):
        publish("orders")
        transaction.on_commit(stumble, using=committed_database, robust=True)

    assert ear.heard == {"q:orders"}


# Many at once.


def test_many_messages_keep_their_order(database: str, orders: str) -> None:
    ids = publish_many([(orders, number) for number in range(20)])

    assert [row.message_id for row in rows(database)] == ids


def test_many_letters_go_to_many_queues(database: str, store: Store, orders: str) -> None:
    declare(store, "mails")

    publish_many([OutgoingMessage(queue=orders, body=1, priority=9), ("mails", 2)])

    assert [(row.queue.name, row.priority) for row in rows(database)] == [("orders", 9), ("mails", 4)]


def test_no_messages_at_all_are_published_without_ado(database: str, orders: str) -> None:
    assert publish_many([]) == []


@pytest.mark.parametrize(
    ("culprit", "error"),
    [
        (OutgoingMessage(queue="nowhere"), UnknownQueue),
        (OutgoingMessage(queue="orders", priority=11), InvalidMessage),
        (OutgoingMessage(queue="closed"), QueueClosed),
        (OutgoingMessage(queue="full"), QueueFull),
        (("orders",), InvalidMessage),
        ("orders", InvalidMessage),
    ],
)
def test_of_many_messages_all_are_written_or_none(
    database: str, store: Store, orders: str, culprit: OutgoingMessage, error: type[Exception]
) -> None:
    for name, options in (("closed", {"closed": True}), ("full", {"max_messages": 0})):
        declare(store, name)
        Queue.objects.using(database).filter(name=name).update(**options)

    with pytest.raises(error):
        publish_many([(orders, 1), culprit, (orders, 2)])

    assert rows(database) == []


def test_two_equal_ids_among_many_are_refused(database: str, orders: str) -> None:
    message_id = uuid4()

    with pytest.raises(DuplicateMessage, match=str(message_id)):
        publish_many(
            [
                OutgoingMessage(queue=orders, message_id=message_id),
                OutgoingMessage(queue=orders, message_id=message_id),
            ]
        )

    assert rows(database) == []


# Refusals of the queue.


def test_an_unknown_queue_is_refused_with_what_to_do(database: str) -> None:
    with pytest.raises(UnknownQueue, match="'nowhere'; declare it in DJANGO_MQ"):
        publish("nowhere")


def test_a_closed_queue_is_refused(database: str, orders: str) -> None:
    Queue.objects.using(database).update(closed=True)

    with pytest.raises(QueueClosed, match="'orders' is closed"):
        publish(orders)


def test_a_full_queue_is_refused_and_takes_messages_again_later(database: str, store: Store) -> None:
    store.queues.declare("small", {**defaults(), "max_messages": 2})
    publish_many([("small", 1), ("small", 2)])

    with pytest.raises(QueueFull, match="holds 2 of at most 2 messages; 1 more do not fit"):
        publish("small")

    store.deletions.purge("small")
    publish("small")


def test_a_duplicate_message_id_is_refused(database: str, orders: str) -> None:
    taken = publish(orders)

    with pytest.raises(DuplicateMessage, match=f"{taken} is already in queue 'orders'"):
        publish(orders, message_id=taken)


def test_the_same_id_may_be_in_two_queues(database: str, store: Store, orders: str) -> None:
    declare(store, "mails")
    message_id = publish(orders)

    assert publish("mails", message_id=message_id) == message_id


# Declared queues.


def test_a_declared_queue_is_created_by_its_first_message(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {"levels": 3, "dead_letter_queue": "dead"}}}

    publish("orders")

    queue = Queue.objects.using(database).get(name="orders")
    assert (queue.levels, queue.dead_letter_queue and queue.dead_letter_queue.name) == (3, "dead")


def test_a_declared_limit_holds_from_the_first_message(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {"max_messages": 2}}}

    with pytest.raises(QueueFull):
        publish_many([("orders", number) for number in range(3)])

    assert rows(database) == []


def test_declared_queues_come_back_after_a_flush(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {"levels": 3}}}
    assert declare_all(shared_store(database)) == ["orders"]
    Queue.objects.using(database).all().delete()

    publish("orders")

    assert Queue.objects.using(database).get().levels == 3


def test_what_an_operator_changed_is_not_declared_away(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {"levels": 3}}}
    declare_all(shared_store(database))
    Queue.objects.using(database).update(levels=5)

    assert declare_all(shared_store(database)) == []
    assert Queue.objects.using(database).get().levels == 5


@pytest.mark.parametrize("first", ["orders", "orders.later"])
def test_declared_queues_that_name_each_other_are_created_whole(
    database: str, settings: Settings, first: str
) -> None:
    queues = {
        "orders": {"expiry_queue": "orders.later", "dead_letter_queue": "orders.dead"},
        "orders.later": {"ttl_seconds": 60, "expiry_queue": "orders"},
    }
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": queues}

    publish(first, 1)

    assert not differences(using=database)
    assert Queue.objects.using(database).get(name="orders.later").expiry_queue.name == "orders"  # type: ignore[union-attr]


def test_any_queue_is_created_where_the_settings_allow_it(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "AUTO_DECLARE": True}

    publish_many([("a", 1), ("b", 2)])

    assert set(Queue.objects.using(database).values_list("name", flat=True)) == {"a", "b"}


class FirstUse:
    """A publisher that finds no queue, and declares it at the moment when another transaction has committed it."""

    def __init__(self, alias: str, publishing: Callable[[], object]) -> None:
        self.is_declaring, self.error = threading.Event(), None
        self._alias, self._publishing = alias, publishing
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        connection = connections[self._alias]
        try:
            with connection.execute_wrapper(self._announce):
                self._publishing()
        except Exception as error:  # noqa: BLE001 - the test's own thread raises it
            self.error = error
        finally:
            self.is_declaring.set()
            connection.close()

    def _announce(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "INSERT INTO django_mq_queue" in sql:
            self.is_declaring.set()
        return execute(sql, params, many, context)


def together() -> None:
    publish_many([("orders", 1), ("orders", 2)])


def once_only() -> None:
    publish("orders", dedup_id="a")


def in_a_transaction(alias: str) -> None:
    with transaction.atomic(using=alias):
        publish("orders")


def alike() -> None:
    publish_batch(OutgoingMessage(queue="orders"), [b"1"] * 60)


@pytest.mark.parametrize("options", [{}, {"max_messages": 500}], ids=["plain", "limited"])
def test_publishers_that_meet_at_the_first_use_of_a_declared_queue_all_publish(
    committed_database: str, settings: Settings, options: dict[str, int]
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {**options, "dead_letter_queue": "dead"}}}
    publishers = [partial(publish, "orders"), together, once_only, alike]
    if shared_store(committed_database).features.concurrent_writers:
        # Elsewhere a transaction that reads before it writes is refused: check W001.
        publishers.append(partial(in_a_transaction, committed_database))
    others = [FirstUse(committed_database, publisher) for publisher in publishers]

    with transaction.atomic(using=committed_database):
        publish("orders")
        process.reset()  # other processes do not know of the queue
        for other in others:
            other.thread.start()
        for other in others:
            assert other.is_declaring.wait(PATIENCE_SECONDS)
    for other in others:
        other.thread.join(PATIENCE_SECONDS)

    assert [other.error for other in others] == [None] * len(others)
    assert len(rows(committed_database)) == len(publishers) + 61
    with pytest.raises(DuplicateMessage, match="Duplicate id 'a' was used"):
        once_only()


def test_the_first_publisher_s_roll_back_leaves_the_queue_to_the_next(
    committed_database: str, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {}}}
    other = FirstUse(committed_database, partial(publish, "orders"))

    with rolled_back(committed_database):
        publish("orders")
        process.reset()
        other.thread.start()
        assert other.is_declaring.wait(PATIENCE_SECONDS)
    other.thread.join(PATIENCE_SECONDS)

    assert other.error is None
    assert len(rows(committed_database)) == 1


def test_a_queue_of_this_process_that_another_thread_declares_meanwhile_is_used(settings: Settings) -> None:
    settings.DJANGO_MQ = {"QUEUES": {"orders": {}}}
    empty_brokers()
    store = shared_store(MEMORY)

    def write() -> bool:
        if store.queues.find("orders") is None:
            declare(shared_store(MEMORY), "orders")
            raise UnknownQueue
        return True

    assert declaring(store, ["orders"], write)


# Async.


@pytest.fixture
def left_alone() -> Iterator[None]:
    """The async publisher's thread keeps its connection; the tests' databases are dropped in the end."""
    yield
    close_connections(publisher.async_threads)


@pytest.mark.usefixtures("left_alone")
def test_async_code_publishes_on_its_own(committed_database: str, ear: Ear) -> None:
    declare(shared_store(committed_database), "orders")

    message_id = asyncio.run(apublish("orders", 1, priority=9))
    more = asyncio.run(apublish_many([("orders", 2), ("orders", 3)]))

    assert [row.message_id for row in rows(committed_database)] == [message_id, *more]
    assert ear.heard == {"q:orders"}


@pytest.mark.usefixtures("left_alone")
def test_async_code_is_told_what_was_wrong(committed_database: str) -> None:
    with pytest.raises(UnknownQueue):
        asyncio.run(apublish("nowhere"))


@pytest.mark.usefixtures("left_alone")
def test_async_publishers_that_wait_for_room_delay_no_other_queue(committed_database: str) -> None:
    full = {"max_messages": 1, "overflow": "flow", "wait_seconds": 3600.0}
    create_queue("full", full, using=committed_database)
    create_queue("free", {}, using=committed_database)
    publish("full", "early")
    [early] = rows(committed_database)

    def make_room() -> None:
        shared_store(committed_database).operations.cancel([early.id])

    async def main() -> None:
        waiting = [asyncio.create_task(apublish("full", "late")) for _ in range(MOST_THREADS + 1)]
        await apublish("free")
        await asyncio.get_running_loop().run_in_executor(publisher.async_threads.executor, make_room)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

    asyncio.run(main())

    assert [row.queue.name for row in rows(committed_database)] == ["free", "full"]


@pytest.mark.usefixtures("left_alone")
def test_an_async_publisher_does_not_wait_for_ever(committed_database: str) -> None:
    full = {"max_messages": 1, "overflow": "flow", "wait_seconds": 0.05}
    create_queue("full", full, using=committed_database)
    publish("full", "early")

    with pytest.raises(QueueFull):
        asyncio.run(apublish("full", "late"))


def defaults() -> dict[str, object]:
    return QueueOptions().as_dict()


def test_an_unknown_queue_is_refused_with_a_similar_name(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {"dead_letter_queue": "lost"}}}
    declare(shared_store(database), "invoices")

    for typed, similar in (("ordres", "orders"), ("invoice", "invoices")):
        with pytest.raises(UnknownQueue, match=f"Did you mean '{similar}'") as caught:
            publish(typed)
        assert caught.value.queue == typed
    with pytest.raises(UnknownQueue) as caught:
        publish("receipts")
    assert "Did you mean" not in str(caught.value)
