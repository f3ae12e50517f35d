"""Which consumer is woken when, and which may have which entry: seen through a queue."""

import pytest

from django_mq.inprocess.consumers.consumer import Consumer, Interest
from django_mq.inprocess.queue import Queue
from tests.inprocess.builders import drain, names, publish, subscribe


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def wake(woken: list[str]):
    return lambda consumer: woken.append(consumer.name)


def test_one_arrival_wakes_one_consumer_and_none_twice(queue: Queue, woken: list[str], wake) -> None:
    first = subscribe(queue, "first", wake=wake)
    second = subscribe(queue, "second", wake=wake)
    subscribe(queue, "third", wake=wake)

    publish(queue, "m1", "m2")
    queue.deliver(first, 0.0)
    queue.deliver(second, 0.0)

    assert woken == ["first", "second"]


def test_a_consumer_that_pulled_in_vain_is_woken_again_by_the_next_arrival(
    queue: Queue, woken: list[str], wake
) -> None:
    consumer = subscribe(queue, wake=wake)
    publish(queue, "m1")
    drain(queue, consumer)

    publish(queue, "m2")

    assert woken == ["c", "c"]


def test_nobody_without_credit_is_woken(queue: Queue, woken: list[str], wake) -> None:
    subscribe(queue, messages=0, wake=wake)

    publish(queue, "m")

    assert woken == []


def test_a_new_consumer_is_woken_for_what_waits_already(queue: Queue, woken: list[str], wake) -> None:
    publish(queue, "m")

    subscribe(queue, wake=wake)

    assert woken == ["c"]


def test_credit_that_comes_back_wakes_its_consumer_if_something_waits(
    queue: Queue, woken: list[str], wake
) -> None:
    consumer = subscribe(queue, messages=1, wake=wake)
    publish(queue, "m1", "m2")
    entry = queue.deliver(consumer, 0.0)
    woken.clear()

    assert entry is not None
    queue.accept(entry, consumer)

    assert woken == ["c"]


def test_a_consumer_stuck_at_a_large_entry_hands_over_and_is_told_when_it_is_gone(
    queue: Queue, woken: list[str], wake
) -> None:
    small = subscribe(queue, "small", size_bytes=5, wake=wake)
    large = subscribe(queue, "large", wake=wake)
    publish(queue, "m", size=10)

    assert queue.deliver(small, 0.0) is None
    assert queue.deliver(large, 0.0) is not None

    assert woken == ["small", "large", "small"]


def test_a_consumer_stuck_at_a_large_entry_does_not_take_a_later_small_one(queue: Queue) -> None:
    consumer = subscribe(queue, size_bytes=10)
    publish(queue, "m1", size=8)
    publish(queue, "m2", size=5)
    publish(queue, "m3", size=1)

    held = queue.deliver(consumer, 0.0)
    assert queue.deliver(consumer, 0.0) is None
    assert held is not None
    queue.accept(held, consumer)

    assert drain(queue, consumer) == ["m2", "m3"]


def test_a_stuck_consumer_is_not_woken_by_what_arrives_behind_its_entry(
    queue: Queue, woken: list[str], wake
) -> None:
    consumer = subscribe(queue, size_bytes=5, wake=wake)
    publish(queue, "large", size=10)
    queue.deliver(consumer, 0.0)
    woken.clear()

    publish(queue, "small", size=1)

    assert (woken, consumer.interest) == ([], Interest.BLOCKED)


def test_a_stuck_consumer_is_woken_by_what_arrives_before_its_entry(queue: Queue, woken: list[str], wake) -> None:
    consumer = subscribe(queue, size_bytes=5, wake=wake)
    publish(queue, "large", size=10)
    queue.deliver(consumer, 0.0)
    woken.clear()

    publish(queue, "small", size=1, priority=9)

    assert woken == ["c"]
    assert drain(queue, consumer) == ["small"]


def test_a_lower_priority_gets_nothing_while_a_higher_one_has_credit(queue: Queue) -> None:
    low = subscribe(queue, "low", priority=1)
    high = subscribe(queue, "high", messages=1, priority=5)
    publish(queue, "m1", "m2")

    assert queue.deliver(low, 0.0) is None
    assert drain(queue, high) == ["m1"]
    assert drain(queue, low) == ["m2"]


def test_a_higher_priority_that_runs_out_of_credit_wakes_a_lower_one(queue: Queue, woken: list[str], wake) -> None:
    subscribe(queue, "low", priority=1, wake=wake)
    high = subscribe(queue, "high", messages=1, priority=5, wake=wake)
    publish(queue, "m1", "m2")

    queue.deliver(high, 0.0)

    assert woken == ["high", "low"]


@pytest.mark.parametrize("leave", ["pause", "close"])
def test_a_higher_priority_that_leaves_wakes_a_lower_one(queue: Queue, woken: list[str], wake, leave: str) -> None:
    subscribe(queue, "low", priority=1, wake=wake)
    high = subscribe(queue, "high", priority=5, wake=wake)
    publish(queue, "m")

    if leave == "pause":
        high.paused = True
        queue.refresh(high)
    else:
        queue.remove_consumer(high)

    assert woken == ["high", "low"]


def test_a_lower_priority_waits_at_what_a_higher_one_wants_and_does_not_skip_it(queue: Queue) -> None:
    low = subscribe(queue, "low", priority=1)
    high = subscribe(queue, "high", priority=5)
    for name in ("m1", "m2"):
        publish(queue, name)
    declined = queue.deliver(high, 0.0)
    assert declined is not None
    queue.decline(declined, high)

    assert queue.deliver(low, 0.0) is declined
    assert queue.deliver(low, 0.0) is None
    assert drain(queue, high) == ["m2"]


def test_equals_that_pull_in_turn_share_alike(queue: Queue) -> None:
    consumers = [subscribe(queue, name) for name in "abc"]
    publish(queue, *(str(number) for number in range(9)))

    shares: dict[Consumer, int] = dict.fromkeys(consumers, 0)
    while (delivery := queue.deliver_next(0.0)) is not None:
        shares[delivery[0]] += 1

    assert list(shares.values()) == [3, 3, 3]


def test_the_turn_goes_by_priority_first(queue: Queue) -> None:
    low, high = subscribe(queue, "low", priority=1), subscribe(queue, "high", messages=2, priority=2)
    publish(queue, "1", "2", "3")

    turns = [queue.deliver_next(0.0) for _ in range(4)]

    assert [turn and turn[0] for turn in turns] == [high, high, low, None]


def test_after_a_vain_turn_everybody_can_be_woken_again(queue: Queue, woken: list[str], wake) -> None:
    for name in "ab":
        subscribe(queue, name, wake=wake)
    publish(queue, "1", "2")
    while queue.deliver_next(0.0) is not None:
        pass
    woken.clear()

    publish(queue, "3", "4")

    assert woken == ["a", "b"]


def test_a_paused_queue_delivers_nothing_and_wakes_on_resume(queue: Queue, woken: list[str], wake) -> None:
    consumers = [subscribe(queue, name, wake=wake) for name in "abc"]
    queue.control.pause()
    publish(queue, "m1", "m2")
    assert [queue.deliver(consumer, 0.0) for consumer in consumers] == [None, None, None]
    assert (queue.deliver_next(0.0), woken) == (None, [])

    queue.control.resume()

    assert woken == ["a", "b"]


def test_a_consumer_that_pulled_while_paused_is_woken_by_the_resume(queue: Queue, woken: list[str], wake) -> None:
    consumer = subscribe(queue, wake=wake)
    publish(queue, "m")
    queue.control.pause()
    queue.deliver(consumer, 0.0)
    woken.clear()

    queue.control.resume()

    assert woken == ["c"]


def test_browsers_are_woken_beside_the_one_that_competes(queue: Queue, woken: list[str], wake) -> None:
    subscribe(queue, "browser", browser=True, wake=wake)
    subscribe(queue, "taker", wake=wake)

    publish(queue, "m")

    assert sorted(woken) == ["browser", "taker"]


def test_a_browser_sees_each_entry_once_and_takes_none(queue: Queue) -> None:
    browser, taker = subscribe(queue, "b", browser=True), subscribe(queue, "c")
    publish(queue, "m1", "m2")

    assert drain(queue, browser) == ["m1", "m2"]
    assert drain(queue, taker) == ["m1", "m2"]
    assert drain(queue, browser) == []


def test_a_browser_is_not_shown_what_is_given_back(queue: Queue) -> None:
    browser, taker = subscribe(queue, "b", browser=True), subscribe(queue, "c")
    publish(queue, "m1", "m2")
    drain(queue, browser)
    held = queue.deliver(taker, 0.0)
    assert held is not None

    queue.release(held, taker)

    assert drain(queue, browser) == []


def test_a_browser_without_credit_still_gets_what_arrived_ahead_of_it_meanwhile(queue: Queue) -> None:
    browser = subscribe(queue, "b", messages=1, browser=True)
    old = publish(queue, "old")[0]
    assert drain(queue, browser) == ["old"]
    publish(queue, "ahead", priority=9)

    queue.accept(old, browser)

    assert drain(queue, browser) == ["ahead"]
    assert names(queue.browse()) == ["ahead", "old"]


def test_a_browser_is_in_nobodys_way(queue: Queue) -> None:
    subscribe(queue, "b", browser=True, priority=9)
    taker = subscribe(queue, "c", priority=1)
    publish(queue, "m")

    assert drain(queue, taker) == ["m"]
