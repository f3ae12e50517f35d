"""Publishing with Celery: in the caller's transaction, and the exceptions from that."""

from __future__ import annotations

import asyncio
import threading
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from amqp import RecoverableConnectionError
from celery import Task, chain
from celery.exceptions import Reject
from django.contrib.auth.models import Group
from django.db import DatabaseError, IntegrityError, OperationalError, connections, transaction
from django.db.backends.signals import connection_created
from kombu import Connection, Consumer, Exchange, Producer
from kombu import Queue as KombuQueue

from django_mq import conf
from django_mq.delivery.codecs import MESSAGE_ID
from django_mq.delivery.operator.queue_editor import create_queue
from django_mq.errors import BodyTooLarge, QueueClosed, QueueFull
from django_mq.integrations.celery import failures, publisher
from django_mq.models import Message, Queue
from django_mq.notifications.base import Wake, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.connections import threads
from tests.support.apart import close_connections
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery import Celery
    from pytest_django import Settings

    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite", "postgresql")


@pytest.fixture
def ear(settings: Settings) -> Iterator[Wake]:
    """Hears hints for the queue "celery", which stay in the process: they arrive at once."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "HINTS": "none"}
    wake = Wake()
    listener = notifier().listen(wake)
    listener.subscribe([queue_topic("celery")])
    yield wake
    listener.close()
    wake.close()


def test_a_message_exists_if_and_only_if_the_transaction_commits(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    with transaction.atomic(using=committed_database):
        app.send_task("note", ("rolled back",))
        transaction.set_rollback(True, using=committed_database)
    assert not rows()

    with transaction.atomic(using=committed_database):
        app.send_task("note", ("committed",))
    assert [row.headers["argsrepr"] for row in rows()] == ["('committed',)"]


@contextmanager
def refused_once(alias: str, text: str) -> Iterator[None]:
    """Have the database refuse the first statement that contains the text, as after a lock timeout."""
    left = [OperationalError("canceling statement due to lock timeout")]

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if left and text in sql:
            raise left.pop()
        return execute(sql, params, many, context)

    with connections[alias].execute_wrapper(refuse):
        yield
    assert not left


@pytest.mark.parametrize("table", ["django_mq_queue", "django_mq_message"])
def test_a_task_is_published_though_a_lock_timeout_interrupts_its_first_try(
    app: Celery, rows: Rows, committed_database: str, table: str
) -> None:
    with refused_once(committed_database, f"INSERT INTO {table}"):
        app.send_task("note", queue="fresh")

    assert [row.queue.name for row in rows()] == ["fresh"]


def test_a_closed_channel_asks_for_a_new_one(connection: Connection) -> None:
    channel = connection.channel()
    channel.close()

    for use in (channel.queue_declare, channel.queue_purge, channel.basic_get):
        with pytest.raises(RecoverableConnectionError):
            use("things")
    with pytest.raises(connection.recoverable_connection_errors):
        channel.basic_publish(channel.prepare_message("text"), "", "things")


def test_with_autocommit_off_a_message_exists_if_and_only_if_the_caller_commits(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    transaction.set_autocommit(False, using=committed_database)
    app.send_task("note", ("rolled back",))
    transaction.rollback(using=committed_database)
    app.send_task("note", ("committed",))
    transaction.commit(using=committed_database)
    transaction.set_autocommit(True, using=committed_database)

    assert [row.headers["argsrepr"] for row in rows()] == ["('committed',)"]


def test_a_consumer_works_where_the_settings_switch_autocommit_off(
    url: str, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections[committed_database].close()
    monkeypatch.setitem(connections[committed_database].settings_dict, "AUTOCOMMIT", False)
    seen: list[Any] = []

    with Connection(url) as connection, Producer(connection) as producer:
        producer.publish("one", routing_key="things")
        transaction.commit(using=committed_database)

    def accept(message: Any) -> None:
        seen.append(message.payload)
        message.ack()

    with Connection(url) as connection, Consumer(connection, [KombuQueue("things")], on_message=accept):
        connection.drain_events(timeout=PATIENCE_SECONDS)
    connections[committed_database].close()
    monkeypatch.undo()

    assert seen == ["one"]
    assert not Message.objects.using(committed_database).exists()


def test_the_queue_is_declared_anew_after_a_rolled_back_first_publish(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    with transaction.atomic(using=committed_database):
        app.send_task("note", queue="fresh")
        transaction.set_rollback(True, using=committed_database)

    app.send_task("note", queue="fresh")

    assert [row.queue.name for row in rows()] == ["fresh"]


def test_a_queue_that_was_deleted_meanwhile_is_declared_anew(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    app.send_task("note")
    Message.objects.using(committed_database).all().delete()
    Queue.objects.using(committed_database).all().delete()

    app.send_task("note")

    assert len(rows()) == 1


def test_the_hint_waits_for_the_commit(app: Celery, ear: Wake, committed_database: str) -> None:
    app.send_task("note")
    assert ear.clear()

    with transaction.atomic(using=committed_database):
        app.send_task("note")
        assert not ear.clear()

    assert ear.clear()
    assert ear.take_topics() == {"q:celery"}


def test_a_rolled_back_publish_hints_at_nothing(app: Celery, ear: Wake, committed_database: str) -> None:
    app.send_task("note")
    ear.clear()

    with transaction.atomic(using=committed_database):
        app.send_task("note")
        transaction.set_rollback(True, using=committed_database)

    assert not ear.clear()


def test_a_publish_under_a_running_event_loop(app: Celery, rows: Rows) -> None:
    async def view() -> None:
        app.send_task("note", ("from async",))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the loop's own sockets
        asyncio.run(view())

    close_connections(threads)

    assert [row.headers["argsrepr"] for row in rows()] == ["('from async',)"]


def test_a_publish_under_an_event_loop_does_not_wait_for_room(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    full = {"max_messages": 1, "overflow": "flow", "wait_seconds": 3600.0}
    create_queue("full", full, using=committed_database)
    app.send_task("note", queue="full")

    async def view() -> None:
        with pytest.raises(QueueFull):
            app.send_task("note", queue="full")
        app.send_task("note", queue="free")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the loop's own sockets
        asyncio.run(view())
    close_connections(threads)

    assert [row.queue.name for row in rows()] == ["full", "free"]


def test_a_publish_that_kombu_repeats_is_written_once(connection: Connection, rows: Rows) -> None:
    with connection.channel() as channel:
        channel.queue_declare("things")
        message = channel.prepare_message(b"text", content_type="text/plain", properties={})
        channel.basic_publish(message, exchange="", routing_key="things")

        # The answer to the commit was lost: Kombu prepares the same properties again.
        again = channel.prepare_message(b"text", content_type="text/plain", properties=message["properties"])
        channel.basic_publish(again, exchange="", routing_key="things")

    [row] = rows()
    assert row.message_id == message["properties"][MESSAGE_ID]


def test_two_publishes_of_equal_messages_are_two_messages(connection: Connection, rows: Rows) -> None:
    with connection.channel() as channel:
        channel.queue_declare("things")
        Producer(channel).publish("same", routing_key="things")
        Producer(channel).publish("same", routing_key="things")

    assert len({row.message_id for row in rows()}) == 2


def test_a_broken_transaction_is_not_tried_again(app: Celery, committed_database: str) -> None:
    app.send_task("note")
    Group.objects.using(committed_database).create(name="taken")

    def publish_in_broken_transaction() -> None:
        with transaction.atomic(using=committed_database):
            with pytest.raises(IntegrityError):
                Group.objects.using(committed_database).create(name="taken")
            app.send_task("note", retry_policy={"interval_start": 60, "max_retries": 3})

    # Django's own error, and at once: Kombu would wait a minute, and make it another one.
    with pytest.raises(DatabaseError):
        publish_in_broken_transaction()


def test_a_closed_queue_refuses_with_its_own_error(app: Celery, committed_database: str) -> None:
    app.send_task("note")
    Queue.objects.using(committed_database).update(closed=True)

    with pytest.raises(QueueClosed):
        app.send_task("note")


@pytest.mark.parametrize("what", ["body", "headers"])
def test_what_is_over_the_limit_is_refused(what: str, app: Celery, rows: Rows, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_BODY_BYTES": 5_000}

    with pytest.raises(BodyTooLarge, match=f"The {what} ha"):
        app.send_task("note", ("x" * 6_000,) if what == "body" else (), headers={"tenant": "x" * 6_000})
    assert not rows()


def test_a_dead_redis_does_not_hold_up_a_publish(
    app: Celery, rows: Rows, settings: Settings, free_port: int
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": f"redis://127.0.0.1:{free_port}/0"}

    for _ in range(20):
        app.send_task("note")

    assert len(rows()) == 20


def test_a_group_and_its_members_are_all_there(app: Celery, rows: Rows) -> None:
    from celery import group

    group(app.tasks["note"].si() for _ in range(5)).apply_async()

    assert len(rows()) == 5


@pytest.mark.parametrize("committed", [True, False])
def test_a_tasks_own_retry_outlives_the_roll_back_of_its_transaction(
    app: Celery, rows: Rows, committed_database: str, committed: bool
) -> None:
    seen: list[int] = []

    def work(task: Any) -> None:
        seen.append(task.request.retries)
        with transaction.atomic(using=committed_database):
            Group.objects.using(committed_database).create(name=f"run {task.request.retries}")
            if task.request.retries == 0:
                task.retry(countdown=3600, throw=not committed)

    task = app.task(work, name=f"work {uuid4()}", bind=True, shared=False)
    run_one(app, task)

    [row] = rows()
    assert row.headers["retries"] == 1
    assert row.get_state_display() == "scheduled"
    groups = Group.objects.using(committed_database).count()
    assert groups == (1 if committed else 0)


def test_a_retry_outlives_the_roll_back_in_the_first_protocol_too(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database):
            task.retry(countdown=3600)

    app.conf.task_protocol = 1
    run_one(app, app.task(work, name=f"work {uuid4()}", bind=True, shared=False))

    assert len(rows()) == 1


@pytest.mark.parametrize("replacement", [["note"], ["note", "note"]])
def test_the_replacement_of_a_task_outlives_the_roll_back_of_its_transaction(
    app: Celery, rows: Rows, committed_database: str, replacement: list[str]
) -> None:
    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database):
            Group.objects.using(committed_database).create(name="rolled back")
            app.send_task("note", task_id="rolled back")
            task.replace(chain(*(app.tasks[name].si() for name in replacement)))

    run_one(app, app.task(work, name=f"work {uuid4()}", bind=True, shared=False))

    [row] = rows()
    assert row.correlation_id != "rolled back"
    assert not Group.objects.using(committed_database).exists()


@pytest.mark.parametrize(("options", "stored"), [({}, 4), ({"priority": 0}, 0), ({"priority": 7}, 7)])
def test_a_retry_has_the_priority_of_its_task_which_may_be_none(
    app: Celery, rows: Rows, connection: Connection, options: dict[str, int], stored: int
) -> None:
    def work(task: Any) -> None:
        task.retry(countdown=3600)

    task = app.task(work, name=f"work {uuid4()}", bind=True, shared=False)
    task.apply_async(**options)
    message = connection.default_channel.basic_get("celery", no_ack=True)
    shown = {**message.delivery_info, "priority": message.properties["priority"]}

    run_one(app, task, id=message.headers["id"], delivery_info=shown, properties=message.properties)

    [row] = rows(headers__retries=1)
    assert shown["priority"] == options.get("priority", 0)
    assert row.priority == stored


def run_one(app: Celery, task: Any, **more: Any) -> Any:
    """Run a task as a worker's pool does; return what the pool's parent is told."""
    from celery.app.trace import build_tracer

    failures.cover(task, conf.load().DATABASE)
    request = {"id": str(uuid4()), "args": [], "kwargs": {}, "retries": 0, "is_eager": False, **more}
    tracer = build_tracer(task.name, task, app=app)
    return tracer(request["id"], [], {}, request)


def test_another_task_published_by_a_task_shares_its_fate(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database):
            app.send_task("note")
            raise ValueError

    run_one(app, app.task(work, name=f"work {uuid4()}", bind=True, shared=False))

    assert not rows()


@pytest.mark.parametrize("way", [{}, {"exchange": "news", "routing_key": "a"}], ids=str)
def test_publishing_opens_no_connection_beside_djangos_own(
    app: Celery, committed_database: str, monkeypatch: pytest.MonkeyPatch, way: dict[str, str]
) -> None:
    monkeypatch.setattr(publisher, "FRESH_SECONDS", 0.0)
    with app.connection_for_write() as connection:
        KombuQueue("reports", Exchange("news", "topic"), routing_key="#")(connection.default_channel).declare()
    connections[committed_database].ensure_connection()
    opened: list[int] = []

    def note(**_: Any) -> None:
        opened.append(threading.get_ident())  # a thread of an earlier test may open one still

    connection_created.connect(note)
    try:
        app.send_task("note", **way)
        with transaction.atomic(using=committed_database):
            app.send_task("note", **way)
    finally:
        connection_created.disconnect(note)

    assert threading.get_ident() not in opened


batches = pytest.mark.skipif(not hasattr(Producer, "batch"), reason="Kombu has batches since 5.7")


@batches
def test_a_batch_is_written_at_its_end_in_the_callers_transaction(
    connection: Connection, rows: Rows, committed_database: str
) -> None:
    producer = connection.Producer()
    with transaction.atomic(using=committed_database):
        with producer.batch():
            producer.publish("rolled back", routing_key="things")
        transaction.set_rollback(True, using=committed_database)
    with producer.batch():
        for number in range(30):
            producer.publish(number, routing_key="things", priority=number % 10)
        assert not rows()

    assert [row.priority for row in rows()] == [number % 10 for number in range(30)]


@batches
def test_a_full_batch_is_written_before_its_end(connection: Connection, rows: Rows) -> None:
    producer = connection.Producer()
    with producer.batch(max_size=5) as batch:
        for number in range(7):
            producer.publish(number, routing_key="things")
        assert len(rows()) == 5
        batch.flush()
        assert len(rows()) == 7


@pytest.mark.parametrize("acks_late", [True, False])
def test_a_retry_whose_queue_refuses_it_gives_the_message_back_or_fails_the_task(
    app: Celery, rows: Rows, committed_database: str, acks_late: bool
) -> None:
    """Celery acknowledges a task that asked for a retry, whether or not the retry was written."""

    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database):
            Group.objects.using(committed_database).create(name="rolled back")
            task.retry(countdown=3600)

    Queue.objects.using(committed_database).create(name="celery", closed=True)
    task = app.task(work, name=f"work {uuid4()}", bind=True, shared=False, acks_late=acks_late)

    error = run_one(app, task).info.retval

    if acks_late:
        assert isinstance(error, Reject)
        assert error.requeue
        error = error.reason
    assert isinstance(error, QueueClosed)
    assert error.__cause__ is not error
    assert not rows()
    assert not Group.objects.using(committed_database).exists()


def test_a_task_whose_class_inherits_the_call_of_another_task_goes_by_its_own_options(
    app: Celery, committed_database: str
) -> None:
    class Parent(CallingTask):
        name, using = "parent", committed_database

        def run(self) -> None:
            self.retry(countdown=3600)

    class Child(Parent):
        name, acks_late = "child", True

    Queue.objects.using(committed_database).create(name="celery", closed=True)
    failures.cover(app.register_task(Parent()), committed_database)

    error = run_one(app, app.register_task(Child())).info.retval

    assert isinstance(error, Reject)
    assert error.requeue


@pytest.mark.parametrize("base", [None, "calling"])
def test_another_worker_of_the_process_covers_no_task_again(
    app: Celery, committed_database: str, base: str | None
) -> None:
    more = {"base": CallingTask, "using": committed_database} if base else {}
    task = app.task(_nothing, name=f"work {uuid4()}", shared=False, **more)

    failures.cover(task, committed_database)
    covered = task.run, type(task).__call__
    failures.cover(task, committed_database)

    assert (task.run, type(task).__call__) == covered


def test_a_retry_that_no_try_can_publish_stays_a_dead_letter(app: Celery, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_BODY_BYTES": 100}

    def work(task: Any, text: str = "") -> None:
        task.retry(args=("x" * 200,))

    task = app.task(work, name=f"work {uuid4()}", bind=True, shared=False, acks_late=True)

    error = run_one(app, task).info.retval

    assert isinstance(error, Reject)
    assert (type(error.reason), error.requeue) == (BodyTooLarge, False)


def test_a_retry_that_is_refused_does_not_take_the_next_one_with_it(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database), suppress(Reject):
            for queue in ("closed", "open"):
                with suppress(Reject):
                    task.retry(countdown=3600, queue=queue, throw=False)

    Queue.objects.using(committed_database).create(name="closed", closed=True)
    run_one(app, app.task(work, name=f"work {uuid4()}", bind=True, shared=False, acks_late=True))

    assert [row.queue.name for row in rows()] == ["open"]


def test_a_retry_outlives_the_roll_back_after_another_task_was_applied_in_its_transaction(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    other = app.task(_nothing, name=f"other {uuid4()}", shared=False)

    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database):
            retry = task.retry(countdown=3600, throw=False)
            other.apply()
            other()
            raise retry

    run_one(app, app.task(work, name=f"work {uuid4()}", bind=True, shared=False))

    [row] = rows()
    assert row.headers["retries"] == 1


def test_a_task_that_may_give_its_message_back_publishes_what_follows_it(app: Celery, rows: Rows) -> None:
    task = app.task(_nothing, name=f"first {uuid4()}", shared=False, acks_late=True)

    run_one(app, task, chain=[app.signature("note", immutable=True)])

    assert [row.type for row in rows()] == ["note"]


def test_a_retry_is_written_although_the_body_left_autocommit_off(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    def work(task: Any) -> None:
        transaction.set_autocommit(False, using=committed_database)
        task.retry(countdown=3600)

    app.send_task("note")  # the queue is there, as that of a running task is
    run_one(app, app.task(work, name=f"work {uuid4()}", bind=True, shared=False, acks_late=True))
    transaction.rollback(using=committed_database)  # the body may have left a transaction open, too
    transaction.set_autocommit(True, using=committed_database)

    assert len(rows(headers__retries=1)) == 1


class CallingTask(Task):  # type: ignore[type-arg]  # generic in the stubs only
    """A task whose class surrounds the body with a transaction."""

    using = ""

    def __call__(self, *args: Any, **options: Any) -> Any:
        with transaction.atomic(using=self.using):
            return super().__call__(*args, **options)


def test_a_retry_outlives_the_roll_back_of_the_transaction_around_its_body(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    def work(task: Any) -> None:
        task.retry(countdown=3600)

    name = f"work {uuid4()}"
    run_one(app, app.task(work, name=name, base=CallingTask, bind=True, shared=False, using=committed_database))

    [row] = rows()
    assert row.headers["retries"] == 1


def _nothing() -> None:
    """What another task does."""
