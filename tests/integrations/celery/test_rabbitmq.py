"""The same programs of Kombu on a RabbitMQ and here: what arrives where, with which headers.

``migrate.md`` says what differs; so do the cases, by ``here``.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from amqp.exceptions import ChannelError, NotFound, PreconditionFailed
from kombu import Connection, Exchange, Queue

from django_mq.delivery.consumer.session import close_all
from django_mq.errors import ConfigurationError
from django_mq.models import Message
from django_mq.models import Queue as QueueRow
from django_mq.stores.registry import shared_store
from tests.support.maintenance import run_maintenance
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = [pytest.mark.once, pytest.mark.django_db(transaction=True)]

#: The stores agree with each other: one is enough here.
ALIAS = "default"

REFUSED = "refused"
TTL_MILLISECONDS = 50


@dataclass
class Broker:
    """One of the two brokers. Names are its own: the RabbitMQ is shared."""

    connection: Connection
    #: The database, None for RabbitMQ.
    alias: str | None
    prefix: str = field(default_factory=lambda: f"{uuid4().hex}.")
    queues: dict[str, Queue] = field(default_factory=dict)
    exchanges: dict[str, Exchange] = field(default_factory=dict)

    @cached_property
    def channel(self) -> Any:
        return self.connection.channel()

    def name(self, name: str) -> str:
        return name and self.prefix + name

    def short(self, value: Any) -> Any:
        """Return a value as it is on both brokers: names without the prefix, and no times."""
        if isinstance(value, dict):
            return {name: self.short(item) for name, item in value.items() if name != "time"}
        if isinstance(value, list):
            return [self.short(item) for item in value]
        return value.removeprefix(self.prefix) if isinstance(value, str) else value

    def exchange(self, name: str, kind: str = "direct", **arguments: Any) -> Exchange:
        found = Exchange(self.name(name), kind, arguments=arguments or None)(self.channel)
        found.declare()
        self.exchanges[name] = found
        return found

    def queue(self, name: str, *bindings: tuple[str, str], **arguments: Any) -> Queue:
        """Declare a queue with RabbitMQ's arguments, and bind it to exchanges by keys."""
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        for key in ("x-dead-letter-exchange", "x-dead-letter-routing-key"):
            if key in given:
                given[key] = self.name(given[key])
        self.channel.queue_declare(
            self.name(name), durable=True, auto_delete=False, exclusive=False, arguments=given
        )
        self.queues[name] = found = Queue(self.name(name))(self.channel)
        for exchange, key in bindings:
            self.channel.queue_bind(self.name(name), self.name(exchange), key)
        return found

    def publish(self, body: str, key: str, exchange: str = "", *, is_queue: bool = True, **options: Any) -> None:
        routing_key = self.name(key) if is_queue else key
        with self.connection.Producer(self.channel) as producer:
            producer.publish(
                body,
                exchange=self.name(exchange),
                routing_key=routing_key,
                serializer="raw",
                retry=False,
                **options,
            )

    def maintain(self) -> None:
        if self.alias is not None:
            run_maintenance(shared_store(self.alias))

    def get(self, queue: str) -> Any:
        """Return the next message, None without one; a tick of maintenance comes first."""
        self.maintain()
        return self.channel.basic_get(self.name(queue))

    def take(self, queue: str) -> Any:
        return wait_until(lambda: self.get(queue), f"a message in {queue}")

    def reject(self, queue: str) -> None:
        self.channel.basic_reject(self.take(queue).delivery_tag, requeue=False)

    def bodies(self, queue: str, count: int) -> list[str]:
        """Take this many messages, and see that there are no others."""
        messages = [self.take(queue) for _ in range(count)]
        assert self.get(queue) is None
        for message in messages:
            self.channel.basic_ack(message.delivery_tag)
        return [_text(message.body) for message in messages]

    def seen(self, queue: str) -> dict[str, Any]:
        """Take a message, and return what its receiver sees of the way that it came."""
        message = self.take(queue)
        self.channel.basic_ack(message.delivery_tag)
        headers = {
            name: value
            for name, value in (message.headers or {}).items()
            if name.startswith(("x-death", "x-first"))
        }
        deaths = [death["time"] for death in headers.get("x-death", ())]
        assert all(isinstance(time, datetime) and time.tzinfo is None for time in deaths)
        info = {name: message.delivery_info[name] for name in ("exchange", "routing_key", "redelivered")}
        expiration = message.properties.get("expiration")
        return self.short({"body": _text(message.body), "expiration": expiration, **info, **headers})

    def is_empty(self, *queues: str) -> bool:
        return not any(
            self.channel.queue_declare(self.name(queue), passive=True).message_count for queue in queues
        )

    def wait_until_empty(self, *queues: str) -> None:
        def look() -> bool:
            self.maintain()
            return self.is_empty(*queues)

        wait_until(look, f"{queues} to be empty")

    def returned(self) -> list[int]:
        """Return a list that gets the code of each returned message."""
        codes: list[int] = []
        self.channel.events["basic_return"].add(lambda error, *_: codes.append(error.reply_code))
        return codes

    def hear(self) -> None:
        """Do maintenance here, and read what RabbitMQ has sent."""
        self.maintain()
        if self.alias is None:
            with suppress(TimeoutError):
                self.connection.drain_events(timeout=0.1)

    def dead(self) -> dict[str, int]:
        """Return how many messages stay dead in each queue; a RabbitMQ drops them."""
        if self.alias is None:
            return {}
        names = Message.objects.using(self.alias).filter(state=3).values_list("queue__name", flat=True)
        return dict(Counter(map(self.short, names)))

    def close(self) -> None:
        opened: Any = self.connection.channel()
        with opened as channel:
            for queue in self.queues.values():
                channel.queue_delete(queue.name)
            for exchange in self.exchanges.values():
                channel.exchange_delete(exchange.name)


def _text(body: Any) -> str:
    return body.decode() if isinstance(body, bytes) else str(body)


@pytest.fixture
def brokers(rabbitmq_url: str) -> Iterator[list[Broker]]:
    """A RabbitMQ, and this one."""
    with Connection(rabbitmq_url) as other, Connection(f"django-mq:///{ALIAS}") as own:
        both = [Broker(other, None), Broker(own, ALIAS)]
        yield both
        for broker in both:
            broker.close()
    close_all()


# Dead letters.


def dead_letter_exchange(broker: Broker, **arguments: Any) -> None:
    broker.exchange("dlx", "topic")
    broker.queue("dead", ("dlx", "#"))
    broker.queue("work", dead_letter_exchange="dlx", **arguments)


def rejected(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    broker.publish("a", "work", headers={"kept": 1})
    broker.reject("work")
    return broker.seen("dead")


def rejected_with_an_expiration(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    broker.publish("a", "work", expiration=60)
    broker.reject("work")
    return broker.seen("dead")


def rejected_from_an_exchange_with_a_key(broker: Broker) -> Any:
    broker.exchange("shop", "topic")
    dead_letter_exchange(broker, dead_letter_routing_key="key")
    broker.channel.queue_bind(broker.name("work"), broker.name("shop"), "order.*")
    broker.publish("a", "order.paid", "shop", is_queue=False)
    broker.reject("work")
    return broker.seen("dead")


def expired_in_the_queue(broker: Broker) -> Any:
    dead_letter_exchange(broker, message_ttl=TTL_MILLISECONDS)
    broker.publish("a", "work")
    return broker.seen("dead")


def expired_by_itself(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    broker.publish("a", "work", expiration=TTL_MILLISECONDS / 1000)
    return broker.seen("dead")


def a_task_that_expires_by_itself(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    headers = {"task": "t", "id": str(uuid4()), "lang": "py"}
    broker.publish("a", "work", expiration=TTL_MILLISECONDS / 1000, headers=headers)
    return broker.seen("dead")


def replaced_in_a_full_queue(broker: Broker) -> Any:
    dead_letter_exchange(broker, max_length=1)
    for body in "abc":
        broker.publish(body, "work")
    return broker.bodies("work", 1), [broker.seen("dead") for _ in "ab"]


def replaced_by_bytes(broker: Broker) -> Any:
    dead_letter_exchange(broker, max_length_bytes=3)
    for body in ("aaa", "bb", "c"):
        broker.publish(body, "work")
    return broker.bodies("work", 2), [broker.seen("dead")]


def refused_by_a_full_queue(broker: Broker) -> Any:
    dead_letter_exchange(broker, max_length=1, overflow="reject-publish")
    broker.publish("a", "work")
    outcome = "no error"
    try:
        broker.publish("b", "work")
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        outcome = type(error).__name__
    return outcome, broker.bodies("work", 1), broker.is_empty("dead")


def to_the_default_exchange(broker: Broker) -> Any:
    broker.queue("dead")
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=TTL_MILLISECONDS)
    broker.publish("a", "work")
    return broker.seen("dead")


def to_two_queues(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    broker.queue("also", ("dlx", "#"))
    broker.publish("a", "work")
    broker.reject("work")
    return broker.seen("dead"), broker.seen("also")


def to_a_queue_through_another_exchange(broker: Broker) -> Any:
    dead_letter_exchange(broker, message_ttl=TTL_MILLISECONDS)
    broker.exchange("further", "fanout")
    broker.queue("last", ("further", ""))
    broker.channel.exchange_bind(broker.name("further"), broker.name("dlx"), "#")
    broker.publish("a", "work")
    return broker.seen("last")


def to_an_exchange_that_leads_nowhere(broker: Broker) -> Any:
    broker.exchange("dlx")
    broker.queue("work", dead_letter_exchange="dlx", message_ttl=TTL_MILLISECONDS)
    broker.publish("a", "work")
    broker.wait_until_empty("work")
    return broker.dead()


def delayed_retry(broker: Broker) -> Any:
    back = {"dead_letter_exchange": "", "message_ttl": TTL_MILLISECONDS}
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="retry")
    broker.queue("retry", dead_letter_routing_key="work", **back)
    broker.publish("a", "work")
    for _ in range(3):
        broker.reject("work")
    return broker.seen("work")


def a_way_of_three_queues(broker: Broker) -> Any:
    """The entries of x-death come in another order there: only the latest is first for sure."""
    broker.queue("one", dead_letter_exchange="", dead_letter_routing_key="two")
    broker.queue("two", dead_letter_exchange="", dead_letter_routing_key="three", message_ttl=TTL_MILLISECONDS)
    broker.queue("three", dead_letter_exchange="", dead_letter_routing_key="four", max_length=1)
    broker.queue("four")
    for body in "ab":
        broker.publish(body, "one")
        broker.reject("one")
        broker.wait_until_empty("two")
    seen = broker.seen("four")
    first, *others = seen.pop("x-death")
    return seen, first, sorted(others, key=lambda death: death["queue"])


def a_cycle_without_a_rejection(broker: Broker) -> Any:
    for name, other in (("a", "b"), ("b", "a")):
        back = {"dead_letter_exchange": "", "dead_letter_routing_key": other}
        broker.queue(name, **back, message_ttl=TTL_MILLISECONDS)
    broker.publish("m", "a")
    broker.wait_until_empty("a", "b")
    return broker.dead()


def a_retry_of_its_own_queue(broker: Broker) -> Any:
    broker.queue("work", dead_letter_exchange="", message_ttl=TTL_MILLISECONDS)
    broker.publish("m", "work")
    broker.wait_until_empty("work")
    return broker.dead()


def a_purged_queue(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    broker.publish("a", "work")
    broker.channel.queue_purge(broker.name("work"))
    return broker.is_empty("work", "dead")


def a_deleted_queue(broker: Broker) -> Any:
    dead_letter_exchange(broker)
    broker.publish("a", "work")
    broker.channel.queue_delete(broker.name("work"))
    return broker.is_empty("dead")


# Arguments of queues: whether they are taken, and what they do.


def arguments(broker: Broker, **given: Any) -> str:
    try:
        broker.queue("given", **given)
    except (PreconditionFailed, ConfigurationError):
        broker.__dict__.pop("channel", None)  # RabbitMQ has closed it
        return REFUSED
    return "taken"


def highest_priority_first(broker: Broker) -> Any:
    broker.queue("work", max_priority=9)
    for priority in (1, 9, 0, 5):
        broker.publish(str(priority), "work", priority=priority)
    return broker.bodies("work", 4)


def first_in_first_out_without_priorities(broker: Broker) -> Any:
    broker.queue("work")
    for priority in (1, 9, 5):
        broker.publish(str(priority), "work", priority=priority)
    return broker.bodies("work", 3)


def the_oldest_is_replaced_whatever_its_priority(broker: Broker) -> Any:
    dead_letter_exchange(broker, max_length=2, max_priority=9)
    for body, priority in (("low", 1), ("high", 9), ("later", 1)):
        broker.publish(body, "work", priority=priority)
    return broker.bodies("dead", 1), sorted(broker.bodies("work", 2))


def claimed_messages_in_a_full_queue(broker: Broker) -> Any:
    broker.queue("work", max_length=2)
    broker.publish("a", "work")
    held = broker.take("work")
    for body in "bc":
        broker.publish(body, "work")
    bodies = [_text(message.body) for message in iter(lambda: broker.get("work"), None)]
    broker.channel.basic_ack(held.delivery_tag)
    return bodies


def an_unused_queue_expires(broker: Broker) -> Any:
    broker.queue("short", expires=1000)
    returned = broker.returned()

    def is_gone() -> bool:
        broker.hear()
        if broker.alias is not None:
            return not QueueRow.objects.using(broker.alias).filter(name=broker.name("short")).exists()
        broker.publish("a", "short", mandatory=True)  # which is no use of the queue; to declare it is one
        return bool(returned)

    wait_until(is_gone, "the end of the queue")
    return "gone"


# Exchanges.


def routed(broker: Broker) -> Any:
    for kind in ("direct", "topic", "fanout"):
        broker.exchange(kind, kind)
        broker.queue(f"{kind} one", (kind, "a.b"))
        broker.queue(f"{kind} two", (kind, "a.*"), (kind, "#.c"))
        for key in ("a.b", "a.c", "x"):
            broker.publish(key, key, kind, is_queue=False)
    names = [name for name in broker.queues if not name.startswith("given")]
    counts = {"direct one": 1, "direct two": 0, "topic one": 1, "topic two": 2, "fanout one": 3, "fanout two": 3}
    return {name: broker.bodies(name, counts[name]) for name in names}


def routed_by_headers(broker: Broker) -> Any:
    broker.exchange("by", "headers")
    for match in ("all", "any"):
        broker.queue(match)
        given = {"x-match": match, "color": "red", "size": 3}
        broker.channel.queue_bind(broker.name(match), broker.name("by"), "", arguments=given)
    for headers in ({"color": "red", "size": 3}, {"color": "red"}, {"size": 4}):
        broker.publish(str(len(headers)), "", "by", is_queue=False, headers=headers)
    return broker.bodies("all", 1), broker.bodies("any", 2)


def to_an_unknown_exchange(broker: Broker) -> Any:
    try:
        broker.publish("a", "key", "unknown", is_queue=False)
        broker.queue("later")  # RabbitMQ says it with the next answer
    except NotFound as error:
        broker.__dict__.pop("channel", None)
        return error.reply_code
    return "taken"


def to_an_alternate_exchange(broker: Broker) -> Any:
    broker.exchange("other", "fanout")
    broker.exchange("first", "direct", **{"alternate-exchange": broker.name("other")})
    broker.queue("bound", ("first", "key"))
    broker.queue("rest", ("other", ""))
    broker.publish("a", "key", "first", is_queue=False)
    broker.publish("b", "else", "first", is_queue=False)
    return broker.bodies("bound", 1), broker.bodies("rest", 1)


def mandatory_without_a_route(broker: Broker) -> Any:
    broker.exchange("first")
    returned = broker.returned()
    broker.publish("a", "nowhere", "first", is_queue=False, mandatory=True)

    def is_returned() -> list[int]:
        broker.hear()
        return returned

    return wait_until(is_returned, "the message to be returned")


def to_a_queue_by_every_way_once(broker: Broker) -> Any:
    for name in ("first", "second"):
        broker.exchange(name, "topic")
    broker.queue("last", ("second", "#"), ("first", "a.*"))
    for key in ("a.#", "#"):
        broker.channel.exchange_bind(broker.name("second"), broker.name("first"), key)
    broker.channel.exchange_bind(broker.name("first"), broker.name("second"), "#")
    broker.publish("a", "a.b", "first", is_queue=False)
    broker.channel.exchange_unbind(broker.name("second"), broker.name("first"), "#")
    broker.publish("b", "b", "first", is_queue=False)
    return broker.bodies("last", 1)


def other_uses_of_an_exchange(broker: Broker) -> Any:
    broker.exchange("first", "topic")
    broker.queue("work")
    name, unknown = broker.name("first"), broker.name("unknown")
    uses: list[Callable[[Any], Any]] = [
        lambda channel: channel.exchange_declare(name, "fanout", durable=True, auto_delete=False),
        lambda channel: channel.exchange_declare(unknown, "topic", passive=True),
        lambda channel: channel.queue_bind(broker.name("work"), unknown, "a"),
        lambda channel: channel.exchange_bind(name, unknown, "a"),
        lambda channel: channel.exchange_bind(unknown, name, "a"),
    ]
    return [_code(broker, use) for use in uses]


def _code(broker: Broker, use: Callable[[Any], Any]) -> int:
    """Return the code of the error of a use, which ends its channel on RabbitMQ; 0 without one."""
    channel: Any = broker.connection.channel()
    try:
        use(channel)
    except ChannelError as error:
        return error.reply_code
    channel.close()
    return 0


# Queues that end.


def an_empty_auto_delete_queue(broker: Broker) -> Any:
    return _left_behind(broker, 0)


def an_auto_delete_queue_with_messages(broker: Broker) -> Any:
    return _left_behind(broker, 2)


def _left_behind(broker: Broker, count: int) -> int | str:
    """Return what is left in an auto-delete queue when its consumer has gone, before it has received."""
    name = broker.name("ending")
    with broker.connection.clone() as own:
        channel: Any = own.channel()
        channel.queue_declare(name, durable=True, auto_delete=True)
        channel.basic_qos(0, 1, False)
        channel.basic_consume(name, callback=lambda _: None)
        with suppress(TimeoutError):
            own.drain_events(timeout=0.1)
        for body in "abc"[:count]:
            broker.publish(body, "ending")
    return wait_until(lambda: _count(broker, name, count), "the consumer's end")


def _count(broker: Broker, name: str, count: int) -> int | str | None:
    broker.maintain()
    try:
        with broker.connection.channel() as channel:
            left: int = channel.queue_declare(name, passive=True).message_count
            return left if left == count and broker.alias is not None else None
    except ChannelError:
        return "gone"


def the_queue_of_another_connection(broker: Broker) -> Any:
    name = broker.name("mine")
    with broker.connection.clone() as own:
        own.channel().queue_declare(name, exclusive=True)
        uses: list[Callable[[Any], Any]] = [
            lambda channel: channel.queue_declare(name, durable=True, auto_delete=False),
            lambda channel: channel.queue_declare(name, passive=True),
            lambda channel: channel.basic_consume(name),
            lambda channel: channel.queue_purge(name),
            lambda channel: channel.queue_delete(name),
        ]
        return [_code(broker, use) for use in uses]


#: The programs that do the same on both.
ALIKE: list[Callable[[Broker], Any]] = [
    rejected,
    rejected_with_an_expiration,
    rejected_from_an_exchange_with_a_key,
    expired_in_the_queue,
    expired_by_itself,
    a_task_that_expires_by_itself,
    replaced_in_a_full_queue,
    replaced_by_bytes,
    to_the_default_exchange,
    to_two_queues,
    to_a_queue_through_another_exchange,
    delayed_retry,
    a_way_of_three_queues,
    a_purged_queue,
    highest_priority_first,
    an_unused_queue_expires,
    routed,
    routed_by_headers,
    to_an_unknown_exchange,
    to_an_alternate_exchange,
    mandatory_without_a_route,
    to_a_queue_by_every_way_once,
    other_uses_of_an_exchange,
    an_empty_auto_delete_queue,
    the_queue_of_another_connection,
]

#: The programs that do something else here, what RabbitMQ answers, and the answer here.
DIFFERENT: list[tuple[Callable[[Broker], Any], Any, Any]] = [
    (refused_by_a_full_queue, ("no error", ["a"], True), ("QueueFull", ["a"], True)),
    (to_an_exchange_that_leads_nowhere, {}, {"work": 1}),
    (a_cycle_without_a_rejection, {}, {"b": 1}),
    (a_retry_of_its_own_queue, {}, {"work": 1}),
    (a_deleted_queue, True, False),
    (first_in_first_out_without_priorities, ["1", "9", "5"], ["9", "5", "1"]),
    (the_oldest_is_replaced_whatever_its_priority, (["high"], ["later", "low"]), (["low"], ["high", "later"])),
    (claimed_messages_in_a_full_queue, ["b", "c"], ["c"]),
    (an_auto_delete_queue_with_messages, "gone", 2),
]

#: Arguments, what RabbitMQ does with them, and what happens here.
ARGUMENTS: list[tuple[dict[str, Any], str, str]] = [
    ({"message_ttl": 0}, "taken", "taken"),
    ({"message_ttl": -1}, REFUSED, REFUSED),
    ({"message_ttl": "5"}, REFUSED, REFUSED),
    ({"expires": 0}, REFUSED, REFUSED),
    ({"expires": 500}, "taken", REFUSED),
    ({"max_length": 0}, "taken", REFUSED),
    ({"max_length": -1}, REFUSED, REFUSED),
    ({"max_length_bytes": 0}, "taken", REFUSED),
    ({"max_length": 1, "overflow": "drop-head"}, "taken", "taken"),
    ({"max_length": 1, "overflow": "reject-publish"}, "taken", "taken"),
    ({"max_length": 1, "overflow": "reject-publish-dlx"}, "taken", REFUSED),
    ({"max_length": 1, "overflow": "other"}, REFUSED, REFUSED),
    ({"dead_letter_routing_key": "key"}, REFUSED, REFUSED),
    ({"max_priority": 9}, "taken", "taken"),
    ({"max_priority": 300}, REFUSED, "taken"),
    ({"single_active_consumer": True}, "taken", "taken"),
    ({"single_active_consumer": "yes"}, REFUSED, REFUSED),
    ({"queue_mode": "lazy"}, "taken", "taken"),
    ({"queue_mode": "other"}, REFUSED, "taken"),
    ({"queue_type": "quorum"}, "taken", "taken"),
    ({"unknown": 1}, "taken", "taken"),
]


@pytest.mark.parametrize("program", ALIKE, ids=lambda program: program.__name__)
def test_a_program_does_the_same_as_on_rabbitmq(brokers: list[Broker], program: Callable[[Broker], Any]) -> None:
    theirs, ours = map(program, brokers)

    assert ours == theirs


@pytest.mark.parametrize(("program", "there", "here"), DIFFERENT, ids=lambda value: getattr(value, "__name__", ""))
def test_a_program_differs_as_the_page_says(
    brokers: list[Broker], program: Callable[[Broker], Any], there: Any, here: Any
) -> None:
    assert [program(broker) for broker in brokers] == [there, here]


def test_arguments_of_queues_are_taken_and_refused_as_the_page_says(brokers: list[Broker]) -> None:
    found = []
    for given, _, _ in ARGUMENTS:
        found.append((given, *[arguments(broker, **given) for broker in brokers]))
        for broker in brokers:
            with broker.connection.channel() as channel:
                channel.queue_delete(broker.name("given"))

    assert found == ARGUMENTS
