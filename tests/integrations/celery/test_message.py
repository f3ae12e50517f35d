"""Kombu's messages become rows and come back as they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Celery
from kombu import Connection, Producer

from django_mq.errors import BodyNotSerialisable, DuplicateMessage, InvalidMessage
from django_mq.integrations.celery.native import traces_in

if TYPE_CHECKING:
    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")


def fetched(connection: Connection, queue: str = "things") -> Any:
    """Return the next message of a queue."""
    with connection.channel() as channel:
        return channel.basic_get(queue, no_ack=True)


def publish(connection: Connection, body: Any = "text", queue: str = "things", **options: Any) -> None:
    """Publish as a plain Kombu program does."""
    with connection.channel() as channel:
        channel.queue_declare(queue)
        Producer(channel).publish(body, routing_key=queue, **options)


@pytest.mark.parametrize("body", ["text", "häßlich ☃", b"\x00\xff bytes", {"a": [1, None, "ü"]}, []])
def test_a_body_comes_back_as_it_was(connection: Connection, body: Any) -> None:
    publish(connection, body)

    assert fetched(connection).payload == body


def test_headers_and_properties_come_back_as_they_were(connection: Connection) -> None:
    publish(
        connection, headers={"h": {"nested": 1}}, correlation_id="42", reply_to="answers", app_id="app", priority=7
    )

    message = fetched(connection)

    assert message.headers == {"h": {"nested": 1}}
    assert message.properties["correlation_id"] == "42"
    assert message.properties["reply_to"] == "answers"
    assert message.properties["app_id"] == "app"
    assert message.properties["priority"] == 7
    assert message.delivery_info["routing_key"] == "things"


def test_a_property_that_is_neither_amqps_nor_json_is_dropped(connection: Connection) -> None:
    Producer(connection.default_channel).publish(1, routing_key="things", signal=object(), shade="green")

    properties = fetched(connection).properties

    assert properties["shade"] == "green"
    assert "signal" not in properties


def test_an_amqp_property_that_is_not_json_is_refused(connection: Connection) -> None:
    with pytest.raises(BodyNotSerialisable, match="properties"):
        Producer(connection.default_channel).publish(1, routing_key="things", app_id=object())


def test_a_decimal_among_the_headers_is_refused(connection: Connection, app: Celery, rows: Rows) -> None:
    with pytest.raises(InvalidMessage, match=r"Decimal.*Give it as a float"):
        publish(connection, headers={"price": Decimal("1.10")})
    with pytest.raises(InvalidMessage, match=r"Decimal.*Give it as a float"):
        app.send_task("note", (1,), headers={"price": Decimal("1.10")})

    assert not rows()


def test_a_compressed_message_is_decompressed(connection: Connection) -> None:
    publish(connection, {"long": "x" * 1000}, compression="zlib", serializer="json")

    assert fetched(connection).payload == {"long": "x" * 1000}


def test_the_columns_of_a_task_say_what_it_is(app: Celery, rows: Rows) -> None:
    result = app.send_task("note", (1,), priority=9)

    [row] = rows()
    assert row.type == "note"
    assert row.correlation_id == result.id
    assert row.priority == 9
    assert row.headers["argsrepr"] == "(1,)"


def test_of_the_headers_of_a_handlers_message_only_its_trace_goes_with_the_task() -> None:
    assert traces_in('{"traceparent": "00-a", "other": "x"}') == {"traceparent": "00-a"}


@pytest.mark.parametrize(
    ("options", "stored"),
    [({}, 4), ({"priority": None}, 4), ({"priority": 0}, 0), ({"priority": 9}, 9), ({"priority": 12}, 9)],
)
def test_the_priority_of_a_task_is_what_was_said_or_else_four(
    app: Celery, rows: Rows, options: dict[str, Any], stored: int
) -> None:
    app.send_task("note", **options)

    assert [row.priority for row in rows()] == [stored]


def test_a_registered_tasks_own_priority_counts(app: Celery, rows: Rows) -> None:
    app.tasks["note"].priority = 0

    app.tasks["note"].delay()
    app.tasks["note"].apply_async(priority=8)

    assert [row.priority for row in rows()] == [0, 8]


def test_a_zero_of_kombus_producer_counts_for_a_task_that_was_published_before(
    app: Celery, connection: Connection, rows: Rows
) -> None:
    task = app.send_task("note")

    publish(connection, headers={"id": task.id}, priority=0)

    assert [row.priority for row in rows()] == [4, 0]


def test_the_projects_default_priority_counts_where_no_other_is_given(url: str, rows: Rows) -> None:
    def defaulted() -> None:
        """Do nothing."""

    with Celery("defaults", broker=url, set_as_current=False) as app:
        app.conf.task_default_priority = 0
        task = app.task(defaulted, name="defaulted", shared=False)

        task.delay()
        task.apply_async(priority=8)

    assert [row.priority for row in rows()] == [0, 8]


@pytest.mark.parametrize(
    ("given", "stored"), [({}, 9), ({"priority": 0}, 9), ({"priority": 4}, 5), ({"priority": 9}, 0)]
)
def test_in_redis_order_zero_comes_first(app: Celery, rows: Rows, given: dict[str, int], stored: int) -> None:
    app.conf.broker_transport_options = {"priority_order": "redis"}

    app.send_task("note", **given)
    assert [row.priority for row in rows()] == [stored]
    with app.connection_for_read() as connection:
        message = fetched(connection, "celery")

    assert message.properties["priority"] == given.get("priority", 0)


def test_the_order_of_redis_is_that_of_kombus_redis_transport(url: str, redis_url: str) -> None:
    priorities = [9, 3, 5, None, 0, 6]

    def order(broker: str, **options: str) -> list[int | None]:
        with Celery("order", broker=broker, set_as_current=False) as app:
            app.conf.broker_transport_options = options
            for priority in priorities:
                app.send_task("note", (priority,), queue="order", priority=priority)
            with app.connection_for_read() as connection, connection.channel() as channel:
                found = [channel.basic_get("order", no_ack=True) for _ in priorities]
        return [message.payload[0][0] for message in found]

    there = order(redis_url, global_keyprefix=f"{uuid4()}-")

    assert there == [None, 0, 3, 5, 6, 9]
    assert order(url, priority_order="redis") == there


def test_a_countdown_becomes_the_due_time(app: Celery, rows: Rows) -> None:
    before = datetime.now(UTC)
    app.send_task("note", countdown=60)
    after = datetime.now(UTC)

    [row] = rows()
    assert row.get_state_display() == "scheduled"
    assert row.deliver_at is not None
    # However long it took; and a second for rounding.
    assert before + timedelta(seconds=59) < row.deliver_at < after + timedelta(seconds=61)


def test_an_eta_of_any_zone_becomes_the_due_time(app: Celery, rows: Rows) -> None:
    eta = datetime(2126, 5, 17, 12, 30, tzinfo=UTC)

    app.send_task("note", eta=eta.astimezone())

    assert rows()[0].deliver_at == eta


def test_a_task_that_expires_is_kept_for_the_worker_to_revoke(app: Celery, rows: Rows) -> None:
    app.send_task("note", expires=60)

    [row] = rows()
    assert row.expires_at is None
    assert row.headers["expires"]


def test_a_plain_message_that_expires_is_the_stores_affair(connection: Connection, rows: Rows) -> None:
    publish(connection, expiration=60)

    [row] = rows()
    assert row.expires_at is not None
    assert row.expires_at - row.published_at == timedelta(seconds=60)


def test_a_redelivered_message_says_so(connection: Connection) -> None:
    publish(connection)
    with connection.channel() as channel:
        first = channel.basic_get("things")
        first.requeue()

    again = fetched(connection)

    assert not first.delivery_info["redelivered"]
    assert again.delivery_info["redelivered"]


def test_a_task_with_a_duplicate_id_is_taken_once(app: Celery, rows: Rows) -> None:
    app.send_task("note", headers={"x-dedup-id": "a"})

    with pytest.raises(DuplicateMessage):
        app.send_task("note", headers={"x-dedup-id": "a"})

    assert len(rows()) == 1


def test_a_retry_is_no_duplicate(app: Celery, rows: Rows) -> None:
    app.send_task("note", headers={"x-dedup-id": "a"})

    app.send_task("note", headers={"x-dedup-id": "a"}, retries=1)

    assert len(rows()) == 2
