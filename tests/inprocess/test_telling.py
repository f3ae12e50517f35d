"""What happens when a callback fails, or its consumer has left."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.selector import Selector
from django_mq.engine.states import State
from django_mq.errors import OutOfRange
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.entries.capacity import Producer
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, names, publish, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.consumers.consumer import Consumer


def fails(_: Any) -> None:
    raise RuntimeError("told at a bad time")


def test_a_wake_up_that_fails_is_logged_and_the_message_is_delivered_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = Queue()
    consumer = subscribe(queue, wake=fails)

    publish(queue, "m")

    assert "told at a bad time" in caplog.text
    assert drain(queue, consumer) == ["m"]


def test_a_wake_up_that_fails_does_not_leave_a_dead_letter_in_two_queues() -> None:
    broker = Broker()
    queue, dead = broker.declare("q", Rules(dead_letter_queue="dead")), broker.declare("dead")
    consumer = subscribe(queue)
    subscribe(dead, wake=fails)
    publish(queue, "m")
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None

    queue.reject(entry, consumer, now=0.0)

    assert (names(queue.entries()), names(dead.entries())) == ([], ["m"])


def test_a_consumer_that_fails_when_it_is_closed_does_not_keep_the_queue() -> None:
    queue = Queue()
    consumers = [subscribe(queue, name, closed=fails) for name in "ab"]

    queue.control.delete(0.0)

    assert queue.deleted
    assert not queue.consumers()
    assert all(queue.deliver(consumer, 0.0) is None for consumer in consumers)


def test_a_producer_that_fails_when_it_may_go_on_does_not_stop_the_others() -> None:
    queue = Queue(rules=Rules(overflow=Overflow.FLOW, limits=Limits(0)))
    producers = [Producer("bad", fails), Producer("good")]
    for producer in producers:
        queue.publish(message(producer.name), 0.0, producer=producer)

    queue.control.purge()

    assert not any(producer.blocked for producer in producers)


@pytest.mark.parametrize(
    "times", [{"deliver_at": float("inf")}, {"deliver_at": float("nan")}, {"expires_at": float("nan")}], ids=str
)
def test_a_time_that_is_none_is_refused_before_anything_happens(times: dict[str, float]) -> None:
    queue = Broker().declare("q")

    with pytest.raises(OutOfRange):
        queue.publish(message("m", duplicate_id="once", **times), 0.0)
    with pytest.raises(OutOfRange):
        queue.publish(message("m", **times), 0.0)
    queue.publish(message("good", duplicate_id="once"), 0.0)

    assert names(queue.entries()) == ["good"]


def test_a_unit_of_work_refuses_such_a_time_when_it_is_published_and_commits_the_rest() -> None:
    broker = Broker()
    queue, work = broker.declare("q"), broker.begin()

    with pytest.raises(OutOfRange):
        work.publish(queue, message("never", deliver_at=float("inf")))
    work.publish(queue, message("m"))
    work.commit(0.0)

    assert names(queue.entries()) == ["m"]


def test_who_is_awake_for_something_else_does_not_keep_the_others_asleep() -> None:
    queue, woken = Queue(), []
    wake: Callable[[Consumer], None] = lambda consumer: woken.append(consumer.name)  # noqa: E731
    busy = subscribe(queue, "busy", selector=Selector("k = 'own'"), wake=wake)
    publish(queue, "own", headers={"k": "own"})
    queue.deliver(busy, 0.0)
    gone = subscribe(queue, "gone", wake=wake)
    subscribe(queue, "idle", wake=wake)
    publish(queue, "any")
    assert woken == ["busy", "gone"]

    queue.remove_consumer(gone)

    assert woken == ["busy", "gone", "idle"]


def test_an_idle_consumer_is_told_though_a_better_one_has_yet_to_take_the_message_before() -> None:
    queue, woken = Queue(), []
    wake: Callable[[Consumer], None] = lambda consumer: woken.append(consumer.name)  # noqa: E731
    subscribe(queue, "better", priority=1, selector=Selector("k = 'own'"), wake=wake)
    subscribe(queue, "any", wake=wake)
    subscribe(queue, "other", selector=Selector("k = 'other'"), wake=wake)
    publish(queue, "own", headers={"k": "own"})

    publish(queue, "other", headers={"k": "other"})

    assert woken == ["better", "other"]


def test_a_consumer_whose_credit_is_too_small_for_a_message_is_told_of_that_ones_leaving_only() -> None:
    queue, woken = Queue(), []
    small = subscribe(queue, "small", size_bytes=10, wake=lambda consumer: woken.append(consumer.name))
    other = subscribe(queue, "other", selector=Selector("k = 'own'"))
    any_size = subscribe(queue, "any size")
    publish(queue, "large", size=20)
    publish(queue, "own", headers={"k": "own"}, size=20)
    assert drain(queue, small) == []
    woken.clear()

    assert drain(queue, other) == ["own"]
    assert not woken
    assert drain(queue, any_size) == ["large"]
    assert woken == ["small"]


def test_a_turn_hands_over_what_was_reserved_before_anything_else() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    queue.publish(message("at once"), 0.0, immediate=True)
    publish(queue, "later", priority=9)

    taken = [queue.deliver_next(0.0) for _ in range(2)]

    assert [(taker, entry.message.id) for taker, entry in filter(None, taken)] == [
        (consumer, "at once"),
        (consumer, "later"),
    ]


@pytest.mark.parametrize(
    "leave", [lambda queue, _: queue.control.delete(0.0), partial(Queue.remove_consumer, give_back=False)]
)
def test_what_was_reserved_and_never_handed_over_goes_back(leave: Callable[[Queue, Consumer], Any]) -> None:
    queue = Queue()
    consumer = subscribe(queue)
    entry = queue.publish(message("at once"), 0.0, immediate=True)

    leave(queue, consumer)

    assert entry.state in (State.READY, State.GONE)
    assert queue.counts()[State.CLAIMED] == 0
