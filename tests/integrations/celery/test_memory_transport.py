"""``django-mq:///:memory:``: Kombu and Celery over queues in memory, with no database at all."""

from __future__ import annotations

from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from django.utils import timezone
from kombu import Connection, Exchange, Queue

from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.publisher import apublish, publish
from django_mq.engine.states import State
from django_mq.errors import QueueFull, UnknownQueue
from django_mq.inprocess.memory.broker import broker_named
from django_mq.models import History
from django_mq.stores.registry import MEMORY
from tests.stores.builders import claim, declare, open_session
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.inprocess.memory.store import MemoryStore

pytestmark = pytest.mark.usefixtures("unchecked", "store")
URL = "django-mq:///:memory:"
#: How Celery's worker for tests is started: waited for as long as for anything else.
IN_TIME = {"perform_ping_check": False, "shutdown_timeout": PATIENCE_SECONDS}


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Connection(URL) as opened:
        yield opened


# Kombu


def test_a_message_goes_through_a_simple_queue(connection: Connection) -> None:
    with connection.SimpleQueue("things") as things:
        things.put({"a": 1})
        message = things.get(timeout=PATIENCE_SECONDS)
        message.ack()

        assert message.payload == {"a": 1}
        with pytest.raises(Empty):
            things.get(timeout=0.01)


def test_an_unacknowledged_message_comes_back_to_another_connection(connection: Connection) -> None:
    with Connection(URL) as careless, careless.SimpleQueue("things") as things:
        things.put("kept")
        assert things.get(timeout=PATIENCE_SECONDS).payload == "kept"

    with connection.SimpleQueue("things") as things:
        message = things.get(timeout=PATIENCE_SECONDS)
        assert (message.payload, message.delivery_info["redelivered"]) == ("kept", True)
        message.ack()


def test_a_topic_exchange_routes_by_pattern(connection: Connection) -> None:
    topic = Exchange("news", type="topic")
    with connection.channel() as channel:
        sport, all_news = (
            Queue(name, topic, routing_key=key, channel=channel)
            for name, key in [("sport", "*.sport"), ("all", "#")]
        )
        sport.declare()
        all_news.declare()

        connection.Producer(channel).publish("goal", exchange=topic, routing_key="de.sport")

        assert [queue.get(no_ack=True).payload for queue in (sport, all_news)] == ["goal", "goal"]


def test_the_higher_priority_comes_first(connection: Connection) -> None:
    with connection.SimpleQueue("things") as things:
        for priority in (1, 9, 5):
            things.put(priority, priority=priority)

        assert [things.get(timeout=PATIENCE_SECONDS).payload for _ in range(3)] == [9, 5, 1]


# Celery


@pytest.fixture
def app() -> Iterator[Celery]:
    """An app of its own, whose tasks note in ``app.ran`` that they ran."""
    made = Celery("memory", broker=URL, set_as_current=False)
    made.conf.update(task_acks_late=True, worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)
    ran = made.ran = SimpleQueue()

    @made.task(name="note", shared=False)
    def note(word: str) -> None:
        ran.put(word)

    @made.task(name="stubborn", shared=False, bind=True, max_retries=2)
    def stubborn(self, word: str) -> None:  # type: ignore[no-untyped-def]
        ran.put(f"{word} {self.request.retries}")
        if self.request.retries < 2:
            raise self.retry(countdown=0)

    yield made
    made.close()


def heard(app: Celery, count: int) -> list[str]:
    """What the first so many runs have noted."""
    return [app.ran.get(timeout=PATIENCE_SECONDS) for _ in range(count)]


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_worker_in_a_thread_runs_tasks(app: Celery, store: MemoryStore, pool: str) -> None:
    app.tasks["note"].delay("before")

    with start_worker(app, pool=pool, concurrency=1, **IN_TIME):
        app.tasks["note"].delay("during")

        assert heard(app, 2) == ["before", "during"]
        wait_until(lambda: not store.queues.counts()["celery"].total, "both acknowledgements")
    assert [item.outcome for item in store.broker.history] == [History.Outcome.ACCEPTED] * 2


def test_a_waiting_worker_runs_tasks_by_priority(app: Celery) -> None:
    for priority in (0, 9, 4):
        app.tasks["note"].apply_async((str(priority),), priority=priority)

    with start_worker(app, pool="solo", **IN_TIME):
        assert heard(app, 3) == ["9", "4", "0"]


def test_a_task_for_later_waits_in_the_queue_until_somebody_says_now(app: Celery, store: MemoryStore) -> None:
    app.tasks["note"].apply_async(("later",), eta=timezone.now() + timedelta(hours=1))
    app.tasks["note"].delay("now")

    with start_worker(app, pool="solo", **IN_TIME):
        assert heard(app, 1) == ["now"]
        assert store.queues.counts()["celery"].scheduled == 1

        store.operations.deliver_now(
            [item.id for item in store.browser.browse("celery", states=[State.SCHEDULED.value])]
        )
        assert heard(app, 1) == ["later"]


def test_a_task_runs_when_it_is_due(app: Celery) -> None:
    with start_worker(app, pool="solo", **IN_TIME):
        app.tasks["note"].apply_async(("due",), countdown=0.2)

        assert heard(app, 1) == ["due"]


def test_a_task_retries(app: Celery) -> None:
    with start_worker(app, pool="solo", **IN_TIME):
        app.tasks["stubborn"].delay("try")

        assert heard(app, 3) == ["try 0", "try 1", "try 2"]


def test_a_worker_answers_a_ping(app: Celery) -> None:
    with start_worker(app, pool="solo", **IN_TIME) as worker:
        [answer] = app.control.ping(timeout=PATIENCE_SECONDS, limit=1)

        assert answer == {worker.hostname: {"ok": "pong"}}


def test_a_stopped_worker_leaves_nothing_claimed(app: Celery, store: MemoryStore) -> None:
    with start_worker(app, pool="solo", **IN_TIME):
        app.tasks["note"].delay("word")
        heard(app, 1)

    assert store.queues.counts()["celery"].claimed == 0
    assert not broker_named(MEMORY).sessions


# Native messages


def test_a_native_publish_may_name_the_memory(store: MemoryStore) -> None:
    declare(store)

    message_id = publish("orders", {"n": 1}, priority=7, using=MEMORY)

    [message] = claim(store, open_session(store))
    assert (message.message_id, message.body, message.priority) == (message_id, b'{"n":1}', 7)


def test_an_undeclared_queue_refuses_a_native_publish() -> None:
    with pytest.raises(UnknownQueue, match="orders"):
        publish("orders", 1, using=MEMORY)


def test_a_full_queue_refuses_a_native_publish(store: MemoryStore) -> None:
    declare(store, max_messages=1)
    publish("orders", 1, using=MEMORY)

    with pytest.raises(QueueFull):
        publish("orders", 2, using=MEMORY)


async def _apublish() -> None:
    await apublish("orders", 1, using=MEMORY)


def test_async_code_publishes_into_the_memory(store: MemoryStore) -> None:
    import asyncio

    declare(store)

    asyncio.run(_apublish())

    assert store.queues.counts()["orders"].ready == 1


def test_a_task_in_a_queue_with_a_handler_runs_as_the_task_it_names(app: Celery, store: MemoryStore) -> None:
    handled: SimpleQueue[Any] = SimpleQueue()
    consumer("booked")(lambda message: handled.put(message.body))
    declare(store, "booked", max_attempts=1)
    try:
        app.send_task("note", ["a task"], queue="booked")
        app.send_task("unknown", [], queue="booked")
        publish("booked", "a message", using=MEMORY)
        with start_worker(app, pool="solo", **IN_TIME):
            assert heard(app, 1) == ["a task"]
            assert handled.get(timeout=PATIENCE_SECONDS) == "a message"
            wait_until(lambda: store.queues.counts(["booked"])["booked"].dead == 1)
    finally:
        forget("booked")

    assert handled.empty()
    assert {row.dead_reason for row in store.browser.browse("booked", states=[State.DEAD])} == {
        "unknown task unknown"
    }


def test_a_worker_on_memory_refuses_a_transactional_handler_before_it_starts() -> None:
    consumer("booked", transactional=True)(print)
    try:
        with (
            Celery("unit", broker=URL, set_as_current=False) as app,
            pytest.raises(SystemExit, match=r"builtins.print is transactional, but its queue is in memory"),
        ):
            app.WorkController(pool="solo")
    finally:
        forget("booked")
