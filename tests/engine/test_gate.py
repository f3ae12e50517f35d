"""Nothing is delivered before enough consumers are there."""

from __future__ import annotations

from django_mq.engine.gate import Gate
from django_mq.engine.queue import Queue
from django_mq.engine.rules import Rules
from tests.engine.builders import drain, publish, subscribe


def test_a_gate_that_guards_nothing_is_always_open() -> None:
    gate = Gate()

    assert gate.look(0, 0, 0.0)


def test_it_opens_with_enough_consumers_and_stays_open_with_one() -> None:
    gate = Gate(consumers=2)

    assert not gate.look(1, 0, 0.0)
    assert gate.look(2, 0, 0.0)
    assert gate.look(1, 0, 0.0)


def test_it_opens_some_time_after_the_first_consumer() -> None:
    gate = Gate(delay=5)

    assert not gate.look(1, 0, 10.0)
    assert gate.opens_at == 15
    assert gate.look(1, 0, 15.0)
    assert gate.opens_at is None


def test_it_closes_with_the_last_consumer_whatever_is_claimed() -> None:
    gate = Gate(consumers=2)
    gate.look(2, 0, 0.0)

    assert not gate.look(0, 3, 0.0)
    assert not gate.look(2, 3, 0.0)
    assert gate.look(2, 0, 0.0)


def test_consumers_that_all_left_with_entries_in_hand_must_come_back_in_number() -> None:
    queue = Queue(rules=Rules(consumers_before=2))
    publish(queue, "a", "b")
    first, second = subscribe(queue, "first"), subscribe(queue, "second", 0)
    assert drain(queue, first) == ["a", "b"]
    queue.remove_consumer(second)
    queue.remove_consumer(first)
    third = subscribe(queue, "third")

    assert drain(queue, third) == []
    subscribe(queue, "fourth", 0)
    assert drain(queue, third) == ["a", "b"]
