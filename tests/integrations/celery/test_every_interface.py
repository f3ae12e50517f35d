"""Every interface refuses what no database can store, in the same way, and nothing is written.

PostgreSQL alone refuses a null character in a text; none takes half of a surrogate pair. What a database
refuses is refused late, inside the caller's transaction, and breaks that transaction.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from kombu import Connection, Producer

from django_mq.api import OutgoingMessage, browse, pause, publish, publish_many, purge, resume
from django_mq.delivery.batch import publish_batch
from django_mq.delivery.queues import declare
from django_mq.delivery.validation import EARLIEST, LATEST
from django_mq.errors import InvalidMessage, MQError, StoreError
from django_mq.models import Binding, Message, Queue
from django_mq.pipeline import outgoing
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery import Celery

    Call = Callable[[Any], object]

pytestmark = pytest.mark.on("postgresql")

NASTY: dict[str, Any] = {
    "null": "n\x00ll",
    "half": "a\ud800",
    "long": "x" * 256,
    "empty": "",
    "number": 5,
    "bytes": b"x",
}
ALL = frozenset(NASTY)
EMPTY = frozenset({"empty"})
NONE: frozenset[str] = frozenset()

IMPOSSIBLE_NUMBERS = {"infinite": math.inf, "no number": math.nan, "huge": 2**63, "huger": 1e300, "text": "ten"}


class Known(str, Enum):  # noqa: UP042 - a StrEnum is written as its value everywhere
    """Names as a project may keep them; what ``str()`` makes of a member is something else."""

    ORDERS = "orders"
    RECEIPTS = "receipts"


EAST, WEST = timezone(timedelta(hours=5)), timezone(timedelta(hours=-5))


class Interfaces:
    """All that takes a text, each with the values that it does take."""

    def __init__(self, alias: str, connection: Connection, app: Celery) -> None:
        self.alias, self.app = alias, app
        self.store = shared_store(alias)
        self.connection = connection
        self.channel: Any = connection.default_channel
        self.channel.exchange_declare("e")

    def native(self) -> Iterator[tuple[str, Call, frozenset[str]]]:
        """The interfaces of ``django_mq.api``."""
        yield "publish: queue", lambda value: publish(value, 1), NONE
        yield "publish: exchange", lambda value: publish(exchange=value), NONE
        yield "publish: routing_key", lambda value: publish(exchange="e", routing_key=value), EMPTY
        for name in ("type", "correlation_id", "group_key", "dedup_id"):
            yield f"publish: {name}", lambda value, name=name: publish("orders", **{name: value}), EMPTY
        no_text = {"null", "half", "bytes"}
        yield "publish: header", lambda value: publish("orders", headers={"a": [value]}), ALL - no_text
        yield "publish: header's name", lambda value: publish("orders", headers={value: 1}), EMPTY | {"long"}
        yield "publish_many: pair", lambda value: publish_many([("orders", 1), (value, 1)]), NONE
        yield "publish_batch: type", lambda value: publish_batch(self.binary(type=value), [b"1"]), EMPTY
        yield "declare: name", lambda value: declare(self.store, value), NONE
        yield "declare: dead_letter_queue", lambda value: self.declare_fresh(dead_letter_queue=value), NONE
        yield "declare: expiry_queue", lambda value: self.declare_fresh(expiry_queue=value), NONE
        yield "pause: queue", pause, NONE
        yield "pause: reason", lambda value: pause("orders", reason=value), ALL - {"number", "bytes"}
        for act in (resume, purge):
            yield f"{act.__name__}: queue", act, NONE
        yield "browse: queue", lambda value: list(browse(value)), NONE

    def of_kombu(self) -> Iterator[tuple[str, Call, frozenset[str]]]:
        """The interfaces of a Kombu connection, and of Celery."""
        cut = frozenset({"long", "number", "bytes", "empty"})
        yield "kombu: queue", lambda value: self.put(routing_key=value), NONE
        yield "kombu: exchange", lambda value: self.put(exchange=value, routing_key="orders"), EMPTY
        yield "kombu: routing key", lambda value: self.put(exchange="e", routing_key=value), EMPTY
        yield "kombu: correlation_id", lambda value: self.put(correlation_id=value), cut
        yield "kombu: type", lambda value: self.put(type=value), cut - {"bytes"}
        yield "kombu: reply_to", lambda value: self.put(reply_to=value), cut - {"bytes"}
        yield "kombu: header", lambda value: self.put(headers={"a": value}), cut - {"bytes"}
        yield "kombu: header's name", lambda value: self.put(headers={value: 1}), cut - {"bytes"}
        for name in ("content_type", "content_encoding"):
            given = {"body": b"x", "content_type": "image/png", "content_encoding": "binary"}
            yield f"kombu: {name}", lambda value, name=name, given=given: self.put(**given | {name: value}), EMPTY
        yield "kombu: declare", lambda value: self.channel.queue_declare(queue=value), EMPTY
        yield "kombu: declare volatile", lambda value: self.channel.queue_declare(value, auto_delete=True), EMPTY
        yield "kombu: declare exchange", self.channel.exchange_declare, EMPTY
        yield "kombu: bind exchange", lambda value: self.channel.exchange_bind("e", "e", value), EMPTY
        yield "kombu: bind to", lambda value: self.channel.queue_bind("orders", value, "x"), EMPTY
        yield "kombu: bind with", lambda value: self.channel.queue_bind("orders", "e", value), EMPTY
        yield "kombu: unbind", lambda value: self.channel.queue_unbind("orders", "e", value), EMPTY
        yield "kombu: get", self.channel.basic_get, EMPTY
        yield "kombu: purge", self.channel.queue_purge, EMPTY
        yield "kombu: delete", self.channel.queue_delete, EMPTY
        yield "kombu: consume", self.channel.basic_consume, EMPTY
        yield "celery: argument", lambda value: self.app.send_task("note", (value,)), ALL
        yield "celery: task's name", self.app.send_task, cut - {"bytes"}
        yield "celery: task's id", lambda value: self.app.send_task("note", task_id=value), cut - {"bytes"}

    def put(self, **given: Any) -> None:
        """Publish with Kombu, to a queue that is there unless another is given."""
        Producer(self.connection).publish(given.pop("body", {}), retry=False, **{"routing_key": "orders"} | given)

    def binary(self, **given: Any) -> OutgoingMessage:
        """Return an outgoing message with a body of bytes."""
        return OutgoingMessage(queue="orders", content_type="application/octet-stream", **given)

    def declare_fresh(self, **options: Any) -> None:
        """Declare a queue that is not there."""
        declare(self.store, f"fresh {Queue.objects.using(self.alias).count()}", options)

    def written(self) -> list[int]:
        """Count what there is."""
        return [model.objects.using(self.alias).count() for model in (Message, Queue, Binding)]

    def outcome(self, call: Call, value: Any) -> str:
        """Return what became of a value; refused is what we have refused, before anything was written."""
        before = self.written()
        try:
            call(value)
        except StoreError as error:
            return f"refused late: {error}"
        except MQError as error:
            return "refused" if self.written() == before and len(str(error)) > 20 else f"left something: {error}"
        return "taken"


@pytest.fixture
def api(committed_database: str, connection: Connection, app: Celery) -> Interfaces:
    """The interfaces to a database with a queue for each kind of publisher."""
    for queue in ("orders", "celery"):
        declare(shared_store(committed_database), queue)
    return Interfaces(committed_database, connection, app)


def test_a_text_that_no_database_can_store_is_refused_at_every_interface(api: Interfaces) -> None:
    expected = {}
    found = {}
    for name, call, taken in [*api.native(), *api.of_kombu()]:
        for kind, value in NASTY.items():
            expected[name, kind] = "taken" if kind in taken else "refused"
            found[name, kind] = api.outcome(call, value)

    assert found == expected


def test_a_number_that_no_database_can_store_is_refused_at_every_interface(api: Interfaces) -> None:
    options = ("max_attempts", "dedup_count", "max_messages", "ttl_seconds", "history_days", "backoff_multiplier")
    given: dict[str, Call] = {
        "delay": lambda value: publish("orders", delay=value),
        "ttl": lambda value: publish("orders", ttl=value),
        "priority": lambda value: publish("orders", priority=value),
        "pause": lambda value: pause("orders", seconds=value),
        **{name: lambda value, name=name: api.declare_fresh(**{name: value}) for name in options},
        "x-max-length": lambda value: api.channel.queue_declare("limited", arguments={"x-max-length": value}),
        "x-message-ttl": lambda value: api.channel.queue_declare("brief", arguments={"x-message-ttl": value}),
    }
    found = {
        (name, kind): api.outcome(call, value)
        for name, call in given.items()
        for kind, value in IMPOSSIBLE_NUMBERS.items()
    }

    assert set(found.values()) == {"refused"}, found


def test_a_time_beyond_the_calendar_is_refused_at_every_interface(api: Interfaces) -> None:
    beyond = [datetime.max.replace(tzinfo=WEST), datetime.min.replace(tzinfo=EAST)]
    calls_with_times: list[Call] = [
        lambda value: publish("orders", deliver_at=value),
        lambda value: publish("orders", expires_at=value),
        lambda value: api.app.send_task("note", eta=value),
        lambda value: api.put(headers={"eta": value.isoformat()}),
    ]

    assert [api.outcome(call, moment) for call in calls_with_times for moment in beyond] == ["refused"] * 8
    # The first and the last that every time zone has are taken.
    for moment in (EARLIEST, LATEST):
        assert [api.outcome(call, moment) for call in calls_with_times] == ["taken"] * 4


def test_a_kombu_message_that_lives_too_long_or_no_time_at_all_is_refused(api: Interfaces) -> None:
    def expiring(value: Any) -> None:
        message = api.channel.prepare_message("", properties={"expiration": value})
        api.channel.basic_publish(message, "", "orders")

    for value in (2**63, "a day"):
        with pytest.raises(InvalidMessage, match="expiration"):
            expiring(value)
    with pytest.raises(InvalidMessage, match="'tomorrow' is not a valid date and time"):
        api.put(headers={"eta": "tomorrow"})


def test_a_row_of_spark_that_cannot_be_stored_is_refused_with_its_batch(api: Interfaces) -> None:
    for column in ("queue", "type", "group_key", "headers"):
        nasty = '{"a":"n\\u0000ll"}' if column == "headers" else NASTY["null"]
        rows = [{"queue": "orders", "body": "1"}, {"queue": "orders", "body": "2", column: nasty}]
        columns = pa.schema([(name, pa.string()) for name in {"queue", "body", column}])
        batch = pa.RecordBatch.from_pylist(rows, schema=columns)

        assert api.outcome(lambda rows: outgoing.publish(rows, api.alias), batch) == "refused", column


def test_what_a_task_was_given_is_shown_as_far_as_a_database_can_store_it(api: Interfaces) -> None:
    api.app.send_task("note", ("n\x00ll \ud800",))

    [message] = Message.objects.using(api.alias)
    assert message.headers["argsrepr"] == r"('n\x00ll \ud800',)"
    assert b"n\\u0000ll \\ud800" in bytes(message.body)


def test_a_member_of_an_enumeration_is_the_text_it_stands_for(api: Interfaces) -> None:
    declare(api.store, Known.RECEIPTS, {"dead_letter_queue": Known.ORDERS})
    letter = OutgoingMessage(
        queue=Known.ORDERS, type=Known.ORDERS, group_key=Known.ORDERS, headers={"a": Known.ORDERS}
    )
    publish(Known.ORDERS, 1, correlation_id=Known.ORDERS)
    publish_many([letter, (Known.RECEIPTS, 1)])
    api.channel.exchange_declare(Known.RECEIPTS)
    api.channel.queue_bind(Known.ORDERS, Known.RECEIPTS, Known.ORDERS)
    publish(exchange=Known.RECEIPTS, routing_key=Known.ORDERS)
    api.put(routing_key=Known.ORDERS, correlation_id=Known.ORDERS)
    api.put(exchange=Known.RECEIPTS, routing_key=Known.ORDERS)
    api.app.send_task("note", queue=Known.RECEIPTS)
    pause(Known.ORDERS)
    resume(Known.ORDERS)

    names = Queue.objects.using(api.alias).order_by("name").values_list("name", "dead_letter_queue__name")
    assert list(names) == [("celery", None), ("orders", None), ("receipts", "orders")]
    assert len(list(browse(Known.ORDERS))) == 5
    texts = Message.objects.using(api.alias).values_list("type", "correlation_id", "group_key")
    assert {text for row in texts for text in row} >= {"orders"}
    assert not [text for row in texts for text in row if text and "Known" in text]
    assert (purge(Known.ORDERS), purge(Known.RECEIPTS)) == (5, 2)
