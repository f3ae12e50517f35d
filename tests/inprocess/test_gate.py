"""Nothing is delivered before enough consumers are there."""

from __future__ import annotations

from django_mq.inprocess.consumers.admission import Gate
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import drain, publish, subscribe


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


def test_the_delay_runs_from_a_time_that_was_told_and_housekeeping_ends_it() -> None:
    woken: list[object] = []
    queue = Queue(rules=Rules(delay_before=5.0))
    consumer = subscribe(queue, wake=woken.append)
    publish(queue, "m", now=1e9)
    assert drain(queue, consumer, 1e9) == []
    assert queue.next_time() == 1e9 + 5.0

    queue.keep_house(1e9 + 4.9)
    assert woken == []
    queue.keep_house(1e9 + 5.0)

    assert woken == [consumer]
    assert queue.next_time() is None
    assert drain(queue, consumer, 1e9 + 5.0) == ["m"]


def test_a_gate_whose_delay_has_not_begun_is_looked_at_at_once() -> None:
    queue = Queue(rules=Rules(delay_before=5.0))
    subscribe(queue)

    due_at = queue.next_time()

    assert due_at is not None
    assert due_at < 0.0


def test_nothing_is_delivered_before_enough_consumers_are_there_and_then_they_are_told() -> None:
    woken: list[object] = []
    queue = Queue(rules=Rules(consumers_before=2))
    publish(queue, "1", "2")
    first = subscribe(queue, "first", wake=woken.append)
    assert (drain(queue, first), woken) == ([], [])

    second = subscribe(queue, "second", wake=woken.append)

    assert woken == [first, second]
    assert drain(queue, first) == ["1", "2"]


def test_a_paused_queue_stays_paused_when_its_gate_opens() -> None:
    queue = Queue(rules=Rules(consumers_before=1))
    queue.control.pause()
    publish(queue, "m")
    consumer = subscribe(queue)

    assert drain(queue, consumer) == []
    queue.control.resume()

    assert drain(queue, consumer) == ["m"]
