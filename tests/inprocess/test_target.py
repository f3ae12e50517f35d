"""Several queues read on one credit."""

import sys
from collections.abc import Iterator
from threading import RLock, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.credit import Credit, WindowCredit
from django_mq.errors import AlreadySubscribed, ExclusiveConsumerExists
from django_mq.inprocess.consumers.consumer import INTERESTED, NOT_INTERESTED, Consumer
from django_mq.inprocess.consumers.credit import SpendingCredit
from django_mq.inprocess.consumers.target import Target
from django_mq.inprocess.queue import Queue
from tests.inprocess.builders import drain, names, publish, subscribe


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can, so that they meet everywhere."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def queues(*names: str) -> list[Queue]:
    lock = RLock()
    return [Queue(name, lock=lock) for name in names]


def target_of(*read: Queue, credit: Credit | None = None, **options: Any) -> Target:
    target = Target(credit or WindowCredit(), **options)
    for queue in read:
        target.subscribe(queue)
    return target


def pull_all(target: Target) -> list[str]:
    """Pull until nothing comes."""
    pulled = []
    while (got := target.pull(0.0)) is not None:
        pulled.append(got[1].message.id)
    return pulled


def test_a_pull_answers_the_entry_and_the_consumer_it_was_claimed_for() -> None:
    (queue,) = queues("a")
    target = target_of(queue)
    (entry,) = publish(queue, "a1")

    assert target.pull(0.0) == (target.consumers[0], entry)
    assert target.pull(0.0) is None


def test_queues_with_work_alternate_one_message_each() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b)
    publish(a, "a1", "a2", "a3", "a4")
    publish(b, "b1", "b2")

    assert pull_all(target) == ["a1", "b1", "a2", "b2", "a3", "a4"]


def test_a_pull_goes_on_behind_the_queue_served_last() -> None:
    a, b, c = queues("a", "b", "c")
    target = target_of(a, b, c)
    publish(b, "b1")
    target.pull(0.0)

    publish(a, "a1")
    publish(c, "c1")

    assert pull_all(target) == ["c1", "a1"]


def test_after_a_refused_pull_the_first_queue_is_asked_first() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b)
    publish(a, "a1")
    assert pull_all(target) == ["a1"]

    publish(b, "b1")
    publish(a, "a2")

    assert pull_all(target) == ["a2", "b1"]


def test_a_target_of_no_queues_is_answered_none() -> None:
    assert target_of().pull(0.0) is None


def test_all_queues_together_give_no_more_than_the_credit() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b, credit=WindowCredit(3))
    publish(a, "a1", "a2", "a3")
    publish(b, "b1", "b2", "b3")

    assert pull_all(target) == ["a1", "b1", "a2"]


def test_settling_in_one_queue_opens_the_credit_for_another() -> None:
    a, b = queues("a", "b")
    woken: list[Target] = []
    target = target_of(a, b, credit=WindowCredit(1), wake=woken.append)
    publish(a, "a1")
    consumer, entry = target.pull(0.0) or (None, None)
    publish(b, "b1")
    woken.clear()

    assert consumer is not None
    assert entry is not None
    a.accept(entry, consumer)

    assert woken == [target]
    assert pull_all(target) == ["b1"]


def test_losing_the_credit_hands_over_in_every_queue() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b, credit=WindowCredit(1))
    woken: list[Consumer] = []
    others = [subscribe(queue, "other", priority=-1, wake=woken.append) for queue in (a, b)]
    publish(a, "a1", "a2")
    publish(b, "b1")
    assert woken == []

    target.pull(0.0)

    assert woken == others
    assert [drain(a, others[0]), drain(b, others[1])] == [["a2"], ["b1"]]


def test_no_credit_means_no_interest_in_any_queue() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b, credit=WindowCredit(1))
    publish(a, "a1")

    target.pull(0.0)

    assert [consumer.interest for consumer in target.consumers] == [NOT_INTERESTED, NOT_INTERESTED]


def test_credit_that_was_added_is_told_to_every_queue() -> None:
    a, b = queues("a", "b")
    woken: list[Target] = []
    target = target_of(a, b, credit=SpendingCredit(size_bytes=None), wake=woken.append)
    publish(a, "a1")
    publish(b, "b1")
    assert (pull_all(target), woken) == ([], [])

    target.credit.add(2)
    target.credit_changed()

    assert woken == [target, target]
    assert pull_all(target) == ["a1", "b1"]


def test_a_wake_up_from_any_queue_is_enough() -> None:
    a, b = queues("a", "b")
    woken: list[Target] = []
    target = target_of(a, b, wake=woken.append)

    publish(b, "b1", "b2")

    assert woken == [target]
    assert pull_all(target) == ["b1", "b2"]


def test_a_consumer_stuck_at_a_large_entry_is_not_woken_for_other_credit() -> None:
    a, b = queues("a", "b")
    woken: list[Target] = []
    target = target_of(a, b, credit=SpendingCredit(10, 10), wake=woken.append)
    publish(a, "large", size=50)
    publish(b, "b1", "b2", size=1)
    assert target.pull(0.0) is not None
    woken.clear()

    assert pull_all(target) == ["b2"]
    assert woken == []
    target.credit.add(0, 50)
    target.credit_changed()

    assert woken == [target]
    assert pull_all(target) == ["large"]


def test_a_paused_queue_does_not_stop_the_others() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b)
    publish(a, "a1")
    publish(b, "b1", "b2")

    a.control.pause()
    pulled = pull_all(target)
    a.control.resume()

    assert (pulled, pull_all(target)) == (["b1", "b2"], ["a1"])


def test_a_queue_that_removed_the_consumer_does_not_stop_the_others() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b)
    publish(a, "a1")
    publish(b, "b1", "b2")

    a.remove_consumer(target.consumers[0])

    assert pull_all(target) == ["b1", "b2"]


def test_a_queue_that_removed_the_consumer_may_be_subscribed_to_again() -> None:
    (queue,) = queues("a")
    target = target_of(queue)
    queue.remove_consumer(target.consumers[0])

    target.subscribe(queue)
    publish(queue, "a1")

    assert len(target.consumers) == 1
    assert pull_all(target) == ["a1"]


def test_unsubscribing_releases_what_came_from_that_queue_only() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b, credit=WindowCredit(2))
    publish(a, "a1")
    publish(b, "b1", "b2")
    pull_all(target)

    released = target.unsubscribe(a)

    assert names(released) == ["a1"]
    assert [consumer.name for consumer in target.consumers] == ["target in b"]
    assert pull_all(target) == ["b2"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_turns_go_on_when_a_queue_is_unsubscribed(gone: int) -> None:
    three = queues("a", "b", "c")
    target = target_of(*three)
    for queue in three:
        publish(queue, *(f"{queue.name}{number}" for number in range(3)))
    target.pull(0.0)
    target.pull(0.0)

    target.unsubscribe(three[gone])

    first, second = [name for name in "cab" if name != "abc"[gone]]
    assert [each[0] for each in pull_all(target)][:2] == [first, second]


def test_unsubscribing_from_a_queue_that_is_not_read_does_nothing() -> None:
    a, b = queues("a", "b")

    assert target_of(a).unsubscribe(b) == []


def test_a_queue_is_read_once() -> None:
    (queue,) = queues("a")
    target = target_of(queue)

    with pytest.raises(AlreadySubscribed):
        target.subscribe(queue)

    assert len(target.consumers) == 1


def test_a_consumer_is_given_its_options() -> None:
    (queue,) = queues("a")
    target = Target(WindowCredit())

    consumer = target.subscribe(queue, name="one", priority=7)

    assert (consumer.name, consumer.priority, consumer.credit) == ("one", 7, target.credit)
    assert consumer.target is target


def test_a_subscription_that_fails_leaves_nothing_behind() -> None:
    (queue,) = queues("a")
    subscribe(queue, "alone", exclusive=True)
    target = Target(WindowCredit())

    with pytest.raises(ExclusiveConsumerExists):
        target.subscribe(queue)

    assert target.consumers == ()


def test_a_paused_target_lets_others_work_and_goes_on_afterwards() -> None:
    a, b = queues("a", "b")
    target = target_of(a, b)
    other = subscribe(b, "other", priority=-1)
    publish(a, "a1")
    publish(b, "b1", "b2")

    target.pause()
    assert pull_all(target) == []
    assert b.deliver(other, 0.0) is not None
    target.resume()

    assert pull_all(target) == ["a1", "b2"]


def test_what_a_paused_target_subscribes_to_is_paused_too() -> None:
    (queue,) = queues("a")
    target = Target(WindowCredit())
    target.pause()

    interests = [target.subscribe(queue).interest]
    target.resume()
    interests.append(target.consumers[0].interest)

    assert interests == [NOT_INTERESTED, INTERESTED]


def test_closing_gives_back_all_and_wakes_nobody_of_its_own() -> None:
    a, b = queues("a", "b")
    woken: list[Target] = []
    credit = WindowCredit(2)
    target = target_of(a, b, credit=credit, wake=woken.append)
    publish(a, "a1", "a2")
    publish(b, "b1", "b2")
    pull_all(target)
    woken.clear()

    released = target.close()

    assert (names(released), woken, target.consumers, target.pull(0.0)) == (["a1", "b1"], [], (), None)
    assert (credit.free, drain(a, subscribe(a)), drain(b, subscribe(b))) == (2, ["a1", "a2"], ["b1", "b2"])


def test_a_closed_target_may_subscribe_anew() -> None:
    (queue,) = queues("a")
    target = target_of(queue)
    target.close()

    target.subscribe(queue)
    publish(queue, "a1")

    assert pull_all(target) == ["a1"]


steps = st.lists(
    st.sampled_from(["publish 0", "publish 1", "publish 2", "pull", "accept", "release", "pause", "resume"]),
    max_size=60,
)


@given(st.integers(1, 3), steps)
def test_a_target_is_never_asleep_while_there_is_work_it_may_have(window: int, calls: list[str]) -> None:
    """It pulls only when woken, and until it is answered None; nothing must be left lying."""
    read = queues("a", "b", "c")
    woken: list[Target] = []
    target = target_of(*read, credit=WindowCredit(window), wake=woken.append)
    held: list[Any] = []
    waiting = 0

    for call in calls:
        if call.startswith("publish"):
            publish(read[int(call[-1])], "m")
            waiting += 1
        elif call in ("pause", "resume"):
            getattr(target, call)()
        elif call != "pull" and held:
            consumer, entry = held.pop()
            queue = read[target.consumers.index(consumer)]
            getattr(queue, call)(entry, consumer)
            waiting += call == "release"
        if call != "pull":
            continue
        while woken:
            woken.clear()
            while (got := target.pull(0.0)) is not None:
                held.append(got)
                waiting -= 1
        assert len(held) <= window
        assert target.paused or len(held) == window or not waiting


def test_threads_never_take_more_than_the_credit_together(hasty_threads: None) -> None:
    """Every thread serves one queue; all of them draw on the one credit."""
    read = queues("a", "b", "c", "d")
    credit = WindowCredit(3)
    target = target_of(*read, credit=credit)
    outstanding: list[int] = []

    def serve(queue: Queue, consumer: Consumer) -> None:
        left = 300
        while left:
            entry = queue.deliver(consumer, 0.0)
            if entry is not None:
                outstanding.append(credit.outstanding)
                left -= queue.accept(entry, consumer)

    threads = [Thread(target=serve, args=pair) for pair in zip(read, target.consumers, strict=True)]
    for queue in read:
        publish(queue, *(str(number) for number in range(300)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(outstanding), max(outstanding) <= 3, credit.outstanding) == (1200, True, 0)
