import pytest

from django_mq.engine.decisions.dead_letters import DEAD_AT, DEAD_REASON, ORIGIN_ATTEMPTS, ORIGIN_QUEUE
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import Fate, State
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, names, publish, subscribe


def take(queue: Queue, consumer: Consumer, now: float = 0.0) -> Entry:
    entry = queue.deliver(consumer, now)
    assert entry is not None
    return entry


def test_the_last_allowed_failure_makes_a_dead_letter() -> None:
    queue = Queue(rules=Rules(max_attempts=2))
    consumer = subscribe(queue)
    publish(queue, "m")

    assert queue.fail(take(queue, consumer), consumer) is Fate.RETURNED
    assert queue.fail(take(queue, consumer), consumer) is Fate.DEAD

    assert queue.counts()[State.DEAD] == 1


def test_a_release_at_the_limit_is_no_failure() -> None:
    queue = Queue(rules=Rules(max_attempts=1))
    consumer = subscribe(queue)
    publish(queue, "m")

    assert queue.release(take(queue, consumer), consumer) is Fate.RETURNED
    assert take(queue, consumer).attempts == 1


def test_a_dead_letter_arrives_as_a_new_message_that_tells_where_it_came_from() -> None:
    broker = Broker()
    dead = broker.declare("dead")
    queue = broker.declare("queue", Rules(dead_letter_queue="dead"))
    consumer = subscribe(queue)
    queue.publish(message("m", body="b", priority=7, headers={"a": 1}, deliver_at=1.0, duplicate_id="d"), 0.0)
    entry = take(queue, consumer, 1.0)

    assert queue.reject(entry, consumer, now=2.0) is Fate.DEAD_LETTERED

    [arrived] = dead.browse()
    assert (arrived.attempts, arrived.redelivered, arrived.state) == (0, False, State.READY)
    assert (arrived.message.id, arrived.message.body, arrived.message.priority) == ("m", "b", 7)
    origin = {ORIGIN_QUEUE: "queue", ORIGIN_ATTEMPTS: 1, DEAD_REASON: "rejected"}
    origin[DEAD_AT] = "1970-01-01T00:00:02.000000+00:00"
    headers = dict(arrived.message.headers)
    [death] = headers.pop("x-death")
    assert (death["queue"], death["reason"], death["time"]) == ("queue", "rejected", "1970-01-01T00:00:02+00:00")
    first = {"x-first-death-queue": "queue", "x-first-death-reason": "rejected", "x-first-death-exchange": ""}
    assert headers == {"a": 1, **origin, **first}
    assert (arrived.message.deliver_at, arrived.message.duplicate_id) == (None, None)
    assert (entry.state, queue.statistics.depth) == (State.GONE, 0)


@pytest.mark.parametrize(("forgotten", "expires_at"), [(True, None), (False, 9.0)])
def test_an_end_is_forgotten_or_not(forgotten: bool, expires_at: float | None) -> None:
    broker = Broker()
    dead = broker.declare("dead")
    queue = broker.declare("queue", Rules(dead_letter_queue="dead", drops_expiry=forgotten))
    consumer = subscribe(queue)
    publish(queue, "m", expires_at=9.0)

    queue.reject(take(queue, consumer), consumer, now=1.0)

    assert next(dead.browse()).expires_at == expires_at


def test_dead_letters_of_dead_letters_tell_of_their_last_station_only() -> None:
    broker = Broker()
    last = broker.declare("last")
    middle = broker.declare("middle", Rules(dead_letter_queue="last"))
    first = broker.declare("first", Rules(dead_letter_queue="middle"))
    publish(first, "m")
    for queue in (first, middle):
        consumer = subscribe(queue)
        queue.reject(take(queue, consumer), consumer)

    [arrived] = last.browse()

    assert arrived.message.headers[ORIGIN_QUEUE] == "middle"


def test_a_dead_letter_wakes_a_consumer_of_the_other_queue() -> None:
    broker = Broker()
    woken: list[object] = []
    undertaker = subscribe(broker.declare("dead"), wake=woken.append)
    queue = broker.declare("queue", Rules(dead_letter_queue="dead"))
    consumer = subscribe(queue)
    publish(queue, "m")

    queue.reject(take(queue, consumer), consumer)

    assert woken == [undertaker]


@pytest.mark.parametrize("dead", [None, Rules(overflow=Overflow.REJECT, limits=Limits(messages=0))])
def test_a_dead_letter_that_cannot_go_is_kept(dead: Rules | None) -> None:
    broker = Broker()
    if dead is not None:
        broker.declare("dead", dead)
    queue = broker.declare("queue", Rules(dead_letter_queue="dead"))
    consumer = subscribe(queue)
    publish(queue, "m")

    assert queue.reject(take(queue, consumer), consumer) is Fate.DEAD

    assert queue.counts()[State.DEAD] == 1


def test_a_dead_letter_is_discarded_if_the_rules_say_so() -> None:
    queue = Queue(rules=Rules(keep_dead=False))
    consumer = subscribe(queue)
    publish(queue, "m")

    assert queue.reject(take(queue, consumer), consumer) is Fate.DISCARDED

    assert (queue.entries(), queue.statistics.killed) == ([], 1)


def test_expired_messages_go_to_their_queue_and_are_reported_by_nobody() -> None:
    broker = Broker()
    expired = broker.declare("expired")
    queue = broker.declare("queue", Rules(expiry_queue="expired"))
    publish(queue, "seen", "unseen", expires_at=5.0)
    assert drain(queue, subscribe(queue), 5.0) == []

    assert names(queue.expire(5.0)) == []

    assert names(expired.browse()) == ["seen", "unseen"]
    assert {each.message.headers[DEAD_REASON] for each in expired.browse()} == {"expired"}
    assert queue.statistics.expired == 2


def test_what_would_be_expired_on_arrival_goes_nowhere() -> None:
    broker = Broker()
    expired = broker.declare("expired", Rules(lifetime=Lifetime(most=0.0)))
    queue = broker.declare("queue", Rules(expiry_queue="expired"))
    publish(queue, "m", expires_at=5.0)

    assert names(queue.expire(5.0)) == ["m"]

    assert expired.entries() == []


def test_two_queues_may_send_each_other_their_dead() -> None:
    broker = Broker()
    one = broker.declare("one", Rules(dead_letter_queue="other", max_attempts=1))
    other = broker.declare("other", Rules(dead_letter_queue="one", max_attempts=1))
    consumers = {one: subscribe(one), other: subscribe(other)}
    publish(one, "m")

    for queue in (one, other) * 3:
        assert queue.fail(take(queue, consumers[queue]), consumers[queue]) is Fate.DEAD_LETTERED

    assert (names(one.browse()), other.entries()) == (["m"], [])


def test_a_stolen_message_expires_where_it_was_and_goes_on_from_there() -> None:
    broker = Broker()
    expired = broker.declare("expired")
    queue = broker.declare("queue", Rules(expiry_queue="expired"))
    consumer = subscribe(queue, stealable=True)
    publish(queue, "m", expires_at=5.0)
    entry = take(queue, consumer)

    queue.keep_house(5.0)

    assert names(expired.browse()) == ["m"]
    assert queue.accept(entry, consumer) is Fate.VOID
