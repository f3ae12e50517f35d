"""Plain Kombu programs: consumers, credit, acknowledgements."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from django.utils import timezone
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import drain_consumer, eventloop, itermessages
from kombu.exceptions import ChannelError
from kombu.mixins import ConsumerMixin

from django_mq import api as native
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.operator.redrives import redrive
from django_mq.errors import ConfigurationError, MalformedSelector
from django_mq.models import History, Message
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kombu.transport.virtual import Channel
    from pytest_django import Settings

    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite", once="postgresql")

THINGS = Queue("things")
OTHERS = Queue("others")


@pytest.fixture
def channel(connection: Connection) -> Iterator[Channel]:
    with connection.channel() as opened:
        THINGS(opened).declare()
        OTHERS(opened).declare()
        yield opened


class Inbox:
    """A consumer that remembers what it was given and settles nothing."""

    def __init__(self, channel: Channel, *queues: Queue, prefetch: int = 0, **options: Any) -> None:
        self.channel = channel
        self.messages: list[Any] = []
        self.consumer = Consumer(channel, list(queues), on_message=self.messages.append, **options)
        self.consumer.qos(prefetch_count=prefetch)
        self.consumer.consume()

    @property
    def bodies(self) -> list[Any]:
        return [message.payload for message in self.messages]


def publish(channel: Channel, *bodies: Any, queue: str = "things", **options: Any) -> None:
    """Publish bodies in order."""
    for body in bodies:
        Producer(channel).publish(body, routing_key=queue, **options)


def drain(connection: Connection, timeout: float = 0.2) -> None:
    """Receive until nothing comes."""
    with suppress(TimeoutError):
        while True:
            connection.drain_events(timeout=timeout)


def receive(connection: Connection, inbox: Inbox, count: int) -> None:
    """Receive so many messages in all, however long they take, and then until nothing comes."""
    while len(inbox.messages) < count:
        connection.drain_events(timeout=PATIENCE_SECONDS)
    drain(connection)


def test_a_consumer_receives_in_order_and_acknowledges(
    connection: Connection, channel: Channel, rows: Rows, committed_database: str
) -> None:
    publish(channel, 1, 2, 3)
    inbox = Inbox(channel, THINGS)

    receive(connection, inbox, 3)
    for message in inbox.messages:
        message.ack()
    connection.close()

    assert inbox.bodies == [1, 2, 3]
    assert not rows()
    outcomes = History.objects.using(committed_database).values_list("outcome", flat=True)
    assert list(outcomes) == [History.Outcome.ACCEPTED] * 3


def test_draining_an_empty_queue_times_out(connection: Connection, channel: Channel) -> None:
    Inbox(channel, THINGS)

    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.05)


def test_draining_wakes_for_a_message_of_another_connection(
    connection: Connection, channel: Channel, url: str
) -> None:
    inbox = Inbox(channel, THINGS)
    drain(connection)

    def publish_apart() -> None:
        with Connection(url) as other, other.channel() as others:
            publish(others, "hello")
        connections_of_this_thread_close()

    thread = threading.Thread(target=publish_apart)
    thread.start()
    connection.drain_events(timeout=PATIENCE_SECONDS)
    thread.join()

    assert inbox.bodies == ["hello"]


def connections_of_this_thread_close() -> None:
    """A thread that ends leaves no connection behind."""
    connections.close_all()


def test_no_consumer_holds_more_than_its_prefetch(connection: Connection, channel: Channel) -> None:
    publish(channel, *range(10))
    inbox = Inbox(channel, THINGS, prefetch=3)

    receive(connection, inbox, 3)
    assert inbox.bodies == [0, 1, 2]

    inbox.messages[1].ack()
    receive(connection, inbox, 4)
    assert inbox.bodies == [0, 1, 2, 3]


@pytest.mark.parametrize("given", ["in the URL", "in the settings"])
def test_no_consumer_holds_more_bytes_than_its_credit(
    committed_database: str, rows: Rows, settings: Settings, given: str
) -> None:
    url = f"django-mq:///{committed_database}"
    if given == "in the URL":
        url += "?credit_bytes=100"
    else:
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, "CREDIT_BYTES": 100}
    with Connection(url) as connection, connection.channel() as channel:
        THINGS(channel).declare()
        publish(channel, *("x" * size for size in (30, 38, 500, 10)))
        inbox = Inbox(channel, THINGS)

        receive(connection, inbox, 2)
        assert (len(inbox.messages), len(rows(state=Message.Status.CLAIMED))) == (2, 2)
        inbox.messages[0].ack()
        drain(connection)
        assert len(inbox.messages) == 2
        inbox.messages[1].ack()
        receive(connection, inbox, 3)
        assert [len(body) for body in inbox.bodies] == [30, 38, 500]
        inbox.messages[2].ack()
        receive(connection, inbox, 4)


def test_the_rows_claimed_are_those_of_the_prefetch(connection: Connection, channel: Channel, rows: Rows) -> None:
    publish(channel, *range(10))
    inbox = Inbox(channel, THINGS, prefetch=3)

    receive(connection, inbox, 3)

    assert [row.state for row in rows()].count(Message.Status.CLAIMED) == 3


def test_what_is_not_acknowledged_comes_back_when_the_connection_closes(
    connection: Connection, channel: Channel, rows: Rows
) -> None:
    publish(channel, 1, 2)
    inbox = Inbox(channel, THINGS)
    receive(connection, inbox, 2)

    connection.close()

    assert [(row.state, row.attempts, row.redelivered) for row in rows()] == [(1, 0, True), (1, 0, True)]


def test_a_requeued_message_comes_back_in_its_place_and_is_counted(
    connection: Connection, channel: Channel, rows: Rows
) -> None:
    publish(channel, 1, 2)
    inbox = Inbox(channel, THINGS, prefetch=1)
    connection.drain_events(timeout=PATIENCE_SECONDS)

    inbox.messages[0].requeue()
    connection.drain_events(timeout=PATIENCE_SECONDS)

    assert inbox.bodies == [1, 1]
    assert rows()[0].attempts == 1


def test_a_rejected_message_is_dead_and_outlives_a_purge(
    connection: Connection, channel: Channel, rows: Rows, url: str
) -> None:
    publish(channel, 1)
    inbox = Inbox(channel, THINGS)
    connection.drain_events(timeout=PATIENCE_SECONDS)

    inbox.messages[0].reject()
    connection.close()
    with Connection(url) as another:
        publish(another.channel(), 2)
        assert another.channel().queue_purge("things") == 1

    [row] = rows()
    assert (row.state, row.dead_reason, row.attempts) == (Message.Status.DEAD, "rejected", 1)


def test_a_settled_message_cannot_be_settled_twice(connection: Connection, channel: Channel, rows: Rows) -> None:
    publish(channel, 1)
    inbox = Inbox(channel, THINGS)
    connection.drain_events(timeout=PATIENCE_SECONDS)

    inbox.messages[0].ack()
    channel.basic_reject(inbox.messages[0].delivery_tag, requeue=True)
    connection.close()

    assert not rows()


def test_a_consumer_without_acknowledgements_is_done_at_once(
    connection: Connection, channel: Channel, rows: Rows
) -> None:
    publish(channel, 1, 2)
    inbox = Inbox(channel, THINGS, no_ack=True)

    receive(connection, inbox, 2)
    connection.close()

    assert inbox.bodies == [1, 2]
    assert not rows()


def test_a_cancelled_consumer_receives_nothing_more(connection: Connection, channel: Channel, rows: Rows) -> None:
    publish(channel, *range(5))
    inbox = Inbox(channel, THINGS, prefetch=1)
    connection.drain_events(timeout=PATIENCE_SECONDS)

    inbox.consumer.cancel()
    drain(connection)
    connection.close()

    assert inbox.bodies == [0]
    assert [(row.state, row.attempts) for row in rows()] == [(Message.Status.READY, 0)] * 5


def test_a_consumer_cancelled_by_its_own_callback_receives_nothing_more(
    connection: Connection, channel: Channel, rows: Rows
) -> None:
    publish(channel, *range(5))
    seen: list[Any] = []

    def take_one(message: Any) -> None:
        seen.append(message.payload)
        consumer.cancel()

    consumer = Consumer(channel, [THINGS], on_message=take_one)
    consumer.consume()
    connection.drain_events(timeout=PATIENCE_SECONDS)
    drain(connection)
    connection.close()

    assert seen == [0]
    assert [(row.state, row.attempts) for row in rows()] == [(Message.Status.READY, 0)] * 5


def test_draining_once_delivers_one_message(connection: Connection, channel: Channel) -> None:
    publish(channel, *range(20))
    inbox = Inbox(channel, THINGS)

    seen = []
    for _ in range(3):
        connection.drain_events(timeout=PATIENCE_SECONDS)
        seen.append(list(inbox.bodies))

    assert seen == [[0], [0, 1], [0, 1, 2]]


def through_itermessages(connection: Connection, count: int) -> Iterator[Any]:
    channel = connection.default_channel
    for body, message in itermessages(connection, channel, THINGS, limit=count, timeout=PATIENCE_SECONDS):
        message.ack()
        yield body


def through_drain_consumer(connection: Connection, count: int) -> Iterator[Any]:
    consumer = connection.Consumer([THINGS])
    for body, message in drain_consumer(consumer, limit=count, timeout=PATIENCE_SECONDS):
        message.ack()
        yield body


def through_eventloop(connection: Connection, count: int) -> Iterator[Any]:
    bodies: list[Any] = []
    with connection.Consumer([THINGS], callbacks=[lambda body, message: (bodies.append(body), message.ack())]):
        for _ in eventloop(connection, limit=count, timeout=PATIENCE_SECONDS):
            pass
    yield from bodies


def through_a_mixin(connection: Connection, count: int) -> Iterator[Any]:
    mixin = Mixin(connection)
    for _ in mixin.consume(limit=count):
        pass
    yield from mixin.bodies


class Mixin(ConsumerMixin):
    """Acknowledges what comes, or does what it is told to and stops."""

    def __init__(self, connection: Connection, action: Callable[[Any], object] | None = None) -> None:
        self.connection = connection
        self.bodies: list[Any] = []
        self._action = action

    def get_consumers(self, consumer_class: Any, channel: Any) -> list[Consumer]:
        return [consumer_class([THINGS], callbacks=[self._take])]

    def _take(self, body: Any, message: Any) -> None:
        self.bodies.append(body)
        if self._action is None:
            message.ack()
        else:
            self.should_stop = True
            self._action(message)


LOOPS = [through_itermessages, through_drain_consumer, through_eventloop, through_a_mixin]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("count", [1, 3])
def test_kombus_loops_count_the_messages_and_leave_the_others(
    connection: Connection, channel: Channel, url: str, loop: Any, count: int
) -> None:
    publish(channel, *range(5))

    with Connection(url) as other:
        assert list(loop(other, count)) == list(range(count))

    assert left_in(channel) == list(range(count, 5))


@pytest.mark.parametrize(
    ("settle", "left"),
    [
        (lambda message: message.requeue(), [1, 2, 3]),
        (lambda message: message.reject(), [2, 3]),
        (lambda message: message.ack(), [2, 3]),
        (lambda message: message.payload, [1, 2, 3]),
    ],
    ids=["requeue", "reject", "ack", "nothing"],
)
def test_a_program_that_stops_at_a_message_has_received_no_other(
    connection: Connection, channel: Channel, url: str, settle: Any, left: list[int]
) -> None:
    """kombu#673: a callback that gives its message back and stops received it again, and others."""
    publish(channel, 1, 2, 3)

    with Connection(url) as other:
        mixin = Mixin(other, settle)
        mixin.run()

    assert mixin.bodies == [1]
    assert left_in(channel) == left


def left_in(channel: Channel) -> list[Any]:
    """Take out what is ready, in order."""
    bodies = []
    while (message := THINGS(channel).get()) is not None:
        bodies.append(message.payload)
        message.ack()
    return bodies


def test_recovering_gives_everything_back(connection: Connection, channel: Channel) -> None:
    publish(channel, 1, 2)
    inbox = Inbox(channel, THINGS)
    receive(connection, inbox, 2)

    channel.basic_recover(requeue=True)
    receive(connection, inbox, 4)

    assert inbox.bodies == [1, 2, 1, 2]


def test_two_channels_consume_two_queues_with_credit_of_their_own(
    connection: Connection, channel: Channel
) -> None:
    publish(channel, "a", "b", "c")
    publish(channel, "x", "y", "z", queue="others")
    with connection.channel() as second:
        few, many = Inbox(channel, THINGS, prefetch=1), Inbox(second, OTHERS, prefetch=10)

        receive(connection, many, 3)

        assert few.bodies == ["a"]
        assert many.bodies == ["x", "y", "z"]


def test_several_queues_share_by_priority(connection: Connection, channel: Channel) -> None:
    publish(channel, "low", priority=1)
    publish(channel, "high", queue="others", priority=8)
    inbox = Inbox(channel, THINGS, OTHERS)

    receive(connection, inbox, 2)

    assert inbox.bodies == ["high", "low"]


@pytest.mark.on("postgresql", "mariadb")
def test_a_row_that_another_program_has_locked_holds_up_nobody(
    connection: Connection, channel: Channel, rows: Rows, committed_database: str
) -> None:
    """kombu#524 #110, celery#2177: a worker waited for the row that another worker held, or dead-locked."""
    if connections[committed_database].vendor == "sqlite":
        pytest.skip("SQLite locks no rows")
    publish(channel, 1, 2)

    with transaction.atomic(using=committed_database):
        Message.objects.using(committed_database).select_for_update().get(pk=rows()[0].pk)
        inbox = Inbox(channel, THINGS)
        connection.drain_events(timeout=PATIENCE_SECONDS)

        assert inbox.bodies == [2]


def test_getting_one_message(connection: Connection, channel: Channel, rows: Rows) -> None:
    publish(channel, 1, 2)

    first = channel.basic_get("things")
    first.ack()
    second = channel.basic_get("things")
    nothing = channel.basic_get("things")
    connection.close()

    assert (first.payload, second.payload, nothing) == (1, 2, None)
    assert [row.state for row in rows()] == [Message.Status.READY]


def test_a_bare_text_is_published_as_such(connection: Connection, channel: Channel) -> None:
    """``basic.publish`` of ``celery amqp`` hands over no more."""
    channel.basic_publish("hello", exchange="", routing_key="things")

    assert channel.basic_get("things", no_ack=True).payload == "hello"


def test_a_callback_that_raises_is_the_callers_affair(
    connection: Connection, channel: Channel, rows: Rows
) -> None:
    publish(channel, 1, 2)

    def refuse(message: Any) -> None:
        raise ZeroDivisionError

    with Consumer(channel, [THINGS], on_message=refuse), pytest.raises(ZeroDivisionError):
        connection.drain_events(timeout=PATIENCE_SECONDS)
    connection.close()

    assert [row.state for row in rows()] == [Message.Status.READY] * 2


def test_acknowledging_in_another_thread_wakes_the_consumer(connection: Connection, channel: Channel) -> None:
    publish(channel, 1, 2)
    inbox = Inbox(channel, THINGS, prefetch=1)
    connection.drain_events(timeout=PATIENCE_SECONDS)
    transport = connection.transport
    transport.deliveries.runtime.hear()

    thread = threading.Thread(target=inbox.messages[0].ack)
    thread.start()
    thread.join()

    assert transport.deliveries.runtime.wake.wait(0)
    connection.drain_events(timeout=PATIENCE_SECONDS)
    assert inbox.bodies == [1, 2]


def test_a_queue_is_declared_asked_for_purged_and_deleted(channel: Channel, rows: Rows) -> None:
    publish(channel, 1, 2, 3)

    assert channel.queue_declare("things", passive=True).message_count == 3
    assert channel.queue_purge("things") == 3
    publish(channel, 4)
    assert channel.queue_delete("things", if_empty=True) == 0
    assert channel.queue_delete("things") == 1
    with pytest.raises(ChannelError, match="no queue 'things'"):
        channel.queue_declare("things", passive=True)
    assert not rows()


def test_a_simple_queue_works(connection: Connection) -> None:
    with connection.SimpleQueue("simple") as simple:
        simple.put({"a": 1})
        assert simple.qsize() == 1
        message = simple.get(timeout=PATIENCE_SECONDS)
        message.ack()

        assert message.payload == {"a": 1}
        with pytest.raises(simple.Empty):
            simple.get(timeout=0.05)


def test_a_consumer_counts_what_it_was_delivered(connection: Connection, channel: Channel) -> None:
    with connection.SimpleQueue("simple") as simple:
        for number in range(3):
            simple.put({"a": number})
            simple.get(timeout=PATIENCE_SECONDS).ack()

        (info,) = connection.transport.deliveries.describe().consumers

    assert (info.queue_name, info.delivered) == ("simple", 3)


def test_a_consumer_may_have_rabbitmqs_priority(connection: Connection, channel: Channel) -> None:
    channel.basic_consume("things", arguments={"x-priority": 7})

    assert [info.priority for info in connection.transport.deliveries.describe().consumers] == [7]
    with pytest.raises(ChannelError, match="whole number"):
        channel.basic_consume("things", arguments={"x-priority": "high"})


def test_a_consumer_with_a_selector_gets_only_what_it_matches(connection: Connection, channel: Channel) -> None:
    for region in ("eu", "us", "eu"):
        publish(channel, region, headers={"region": region})
    queue = Queue("things", consumer_arguments={"x-selector": "region = 'us'"})

    inbox = Inbox(channel, queue)
    drain(connection)

    assert inbox.bodies == ["us"]
    assert [info.selector for info in connection.transport.deliveries.describe().consumers] == ["region = 'us'"]


@pytest.mark.parametrize("late", [False, True])
def test_a_channel_gets_only_tasks_of_a_queue_whose_handlers_run_elsewhere(
    connection: Connection, channel: Channel, late: bool
) -> None:
    task = {"lang": "py", "task": "note", "retries": 0, "timelimit": [None, None]}
    publish(channel, "native", headers={"task": "a word of its own", "region": "us"})
    publish(channel, "task", headers={**task, "region": "us"})
    publish(channel, "another", headers=task)
    queue = Queue("things", consumer_arguments={"x-selector": "region = 'us' OR region = 'eu'"})

    if late:
        connection.transport.deliveries.leave_native(["things", "unused"])
    inbox = Inbox(channel, queue)
    if not late:
        connection.transport.deliveries.leave_native(["things", "unused"])
    drain(connection)

    assert inbox.bodies == ["task"]


def test_a_consumer_cannot_have_a_selector_that_cannot_be_used(connection: Connection, channel: Channel) -> None:
    with pytest.raises(MalformedSelector, match="position 8"):
        channel.basic_consume("things", arguments={"x-selector": "region ="})
    channel.queue_declare("celeryev.one", auto_delete=True)
    with pytest.raises(ConfigurationError, match="transient"):
        channel.basic_consume("celeryev.one", arguments={"x-selector": "region = 'us'"})


def test_an_expired_message_is_not_delivered_whatever_its_type(
    connection: Connection, channel: Channel, committed_database: str
) -> None:
    native.publish("things", 1, type="invoice", ttl=60, using=committed_database)
    native.publish("others", 1, type="invoice", ttl=60, using=committed_database)
    past = timezone.now() - timedelta(hours=1)
    Message.objects.using(committed_database).update(expires_at=past)

    assert channel.basic_get("others") is None
    inbox = Inbox(channel, THINGS)
    drain(connection)

    assert not inbox.messages


def test_a_cancelled_consumer_leaves_neither_its_priority_nor_its_selector(
    connection: Connection, channel: Channel
) -> None:
    deliveries = connection.transport.deliveries
    arguments = {"x-priority": 7, "x-selector": "colour = 'red'"}
    with Consumer(channel, [Queue("things", consumer_arguments=arguments)]):
        (shown,) = deliveries.describe().consumers
        assert (shown.priority, shown.selector) == (7, "colour = 'red'")

    with Consumer(channel, [THINGS]):
        (shown,) = deliveries.describe().consumers
        assert (shown.priority, shown.selector) == (0, "")


def test_a_channel_that_closes_leaves_a_queue_to_the_channel_that_consumes_it_now(
    connection: Connection, channel: Channel
) -> None:
    with connection.channel() as earlier:
        Inbox(earlier, THINGS)
        inbox = Inbox(channel, THINGS)
    publish(channel, 1)

    receive(connection, inbox, 1)

    assert inbox.bodies == [1]


def test_an_acknowledgement_of_several_settles_the_messages_delivered_before(
    connection: Connection, channel: Channel, rows: Rows
) -> None:
    publish(channel, 1, 2, 3)
    inbox = Inbox(channel, THINGS)
    receive(connection, inbox, 3)

    inbox.messages[1].ack(multiple=True)
    connection.close()

    [left] = rows()
    assert left.body == b"3"


def test_a_dead_letter_is_addressed_to_the_queue_that_it_is_in(channel: Channel, committed_database: str) -> None:
    """A retry of Celery's goes where this says."""

    def addresses(queue: str) -> tuple[str, str]:
        message = channel.basic_get(queue)
        channel.basic_reject(message.delivery_tag, requeue=False)
        return message.delivery_info["exchange"], message.delivery_info["routing_key"]

    edit_queue("things", {"dead_letter_queue": "others"}, using=committed_database)
    Queue("things", Exchange("shop"), routing_key="key")(channel).declare()
    Producer(channel).publish("a", exchange="shop", routing_key="key")

    assert addresses("things") == ("shop", "key")
    assert addresses("others") == ("", "others")
    assert channel.basic_get("others") is None  # which writes the rejection
    redrive("others", to="things", using=committed_database)
    assert addresses("things") == ("", "things")
