"""The nine goals of the queue's design, each as far as one process can show it."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.selector import Selector
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer, Interest
from django_mq.inprocess.consumers.groups import AssignedGroups
from django_mq.inprocess.consumers.target import Target
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, names, publish, subscribe

if TYPE_CHECKING:
    from types import FrameType

    from django_mq.inprocess.entries.entry import Entry

RED = Selector("color = 'red'")


@pytest.fixture
def woken() -> list[Consumer]:
    return []


def names_of(woken: list[Consumer]) -> list[str]:
    return [consumer.name for consumer in woken]


# 1. A clear threading model.


class WatchedLock:
    """A lock that knows whether it is held."""

    def __init__(self) -> None:
        self.depth = 0

    def acquire(self) -> bool:
        self.depth += 1
        return True

    def release(self) -> None:
        self.depth -= 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


#: What a queue consists of, but its interface to operators, which takes the lock as the queue does.
PARTS = ("deliveries", "due", "arrivals", "outcomes", "state", "subscribers")


def test_dg1_consumers_are_woken_and_parts_are_touched_under_the_one_lock_only() -> None:
    lock: Any = WatchedLock()
    depths: list[int] = []
    queue = Queue(lock=lock)
    consumer = subscribe(
        queue, wake=lambda _: depths.append(lock.depth), closed=lambda _: depths.append(lock.depth)
    )

    def watch(frame: FrameType, event: str, _: object) -> None:
        folders = ("entries/contents", "consumers/dispatch", *(f"parts/{name}" for name in PARTS))
        inner = tuple(f"inprocess/{name}.py" for name in folders)
        if event == "call" and frame.f_code.co_filename.endswith(inner):
            depths.append(lock.depth)

    sys.setprofile(watch)
    try:
        work_through(queue, consumer)
    finally:
        sys.setprofile(None)

    assert len(depths) > 20
    assert min(depths) > 0
    assert lock.depth == 0


def work_through(queue: Queue, consumer: Consumer) -> None:
    [first, *_] = publish(queue, "a", "b", "c")
    publish(queue, "later", deliver_at=5.0)
    for settle in (queue.accept, queue.release, queue.fail):
        entry = queue.deliver(consumer, 1.0)
        assert entry is not None
        settle(entry, consumer)
    queue.control.pause()
    queue.control.resume()
    queue.keep_house(6.0)
    queue.control.remove(first)
    queue.control.purge()
    queue.counts()
    queue.entries()
    queue.control.delete(9.0)


def test_dg1_the_same_calls_have_the_same_results() -> None:
    def history() -> list[object]:
        queue, woken = Queue(), list[Consumer]()
        consumers = [subscribe(queue, str(number), 2, wake=woken.append) for number in range(3)]
        for number in range(20):
            publish(queue, str(number), priority=number * 7 % 10)
        taken = [(entry := queue.deliver(consumer, 0.0)) and entry.message.id for consumer in consumers * 4]
        return [*names_of(woken), *taken]

    assert history() == history()


# 2. Direct invocation.


def test_dg2_an_arrival_has_its_effect_before_publish_returns_and_calls_nobody_in_vain(
    woken: list[Consumer],
) -> None:
    queue = Queue()
    consumer = subscribe(queue, wake=woken.append)
    subscribe(queue, "red", selector=RED, wake=woken.append)

    publish(queue, "m")

    assert woken == [consumer]
    assert consumer.interest is Interest.NOTIFIED


def test_dg2_a_message_of_a_unit_that_is_rolled_back_wakes_nobody(woken: list[Consumer]) -> None:
    broker = Broker()
    queue = broker.declare("queue")
    subscribe(queue, wake=woken.append)
    unit = broker.begin()
    unit.publish(queue, message("m"))

    unit.rollback(0.0)

    assert woken == []


# 3. No spurious wake-ups.


@pytest.mark.parametrize("count", [1, 5, 20])
def test_dg3_k_messages_wake_at_most_k_consumers(woken: list[Consumer], count: int) -> None:
    queue = Queue()
    for number in range(10):
        subscribe(queue, str(number), wake=woken.append)

    publish(queue, *map(str, range(count)))

    assert len(woken) == min(count, 10)
    assert len(set(woken)) == len(woken)


def test_dg3_nobody_is_woken_again_before_it_has_pulled_in_vain(woken: list[Consumer]) -> None:
    queue = Queue()
    consumer = subscribe(queue, wake=woken.append)
    publish(queue, "1", "2")
    queue.deliver(consumer, 0.0)
    publish(queue, "3")
    assert woken == [consumer]

    drain(queue, consumer)
    publish(queue, "4")

    assert woken == [consumer, consumer]


@pytest.mark.parametrize("browser", [False, True])
def test_dg3_nobody_is_woken_for_what_its_selector_leaves_out(woken: list[Consumer], browser: bool) -> None:
    queue = Queue()
    subscribe(queue, selector=RED, browser=browser, wake=woken.append)

    publish(queue, "blue", headers={"color": "blue"})

    assert woken == []


def test_dg3_nobody_is_woken_for_a_group_that_another_owns(woken: list[Consumer]) -> None:
    queue = Queue(rules=Rules(groups=lambda **position: AssignedGroups("group", **position)))
    owner = subscribe(queue, "owner")
    publish(queue, "1", headers={"group": "a"})
    queue.deliver(owner, 0.0)
    subscribe(queue, "other", wake=woken.append)

    publish(queue, "2", headers={"group": "a"})

    assert woken == []


def test_dg3_nobody_is_woken_without_credit_or_while_it_is_paused(woken: list[Consumer]) -> None:
    queue = Queue()
    subscribe(queue, "broke", 0, wake=woken.append)
    paused = subscribe(queue, "paused", wake=woken.append)
    paused.paused = True
    queue.refresh(paused)

    publish(queue, "m")

    assert woken == []


def test_dg3_of_those_woken_few_pull_in_vain(woken: list[Consumer]) -> None:
    queue = Queue()
    for number in range(10):
        subscribe(queue, str(number), 3, wake=woken.append)
    in_vain = wake_ups = 0

    for number in range(200):
        publish(queue, *[f"{number}.{each}" for each in range(number % 4)])
        while woken:
            consumer, wake_ups = woken.pop(0), wake_ups + 1
            in_vain += not drain(queue, consumer)
            for entry in list(consumer.unsettled):
                queue.accept(entry, consumer)

    assert queue.entries() == []
    assert in_vain <= wake_ups / 2


# 4. Short wake-up delays.


def test_dg4_an_idle_consumer_is_told_by_the_arrival_itself(woken: list[Consumer]) -> None:
    queue = Queue()
    consumer = subscribe(queue, wake=woken.append)
    drain(queue, consumer)
    before = list(woken)

    publish(queue, "m")

    assert (before, woken) == ([], [consumer])


def test_dg4_a_busy_consumer_takes_its_next_message_without_being_told(woken: list[Consumer]) -> None:
    queue = Queue()
    consumer = subscribe(queue, wake=woken.append)
    publish(queue, "1", "2", "3")
    woken.clear()

    assert drain(queue, consumer) == ["1", "2", "3"]
    assert woken == []


def test_dg4_credit_that_comes_back_wakes_its_consumer(woken: list[Consumer]) -> None:
    queue = Queue()
    idle = subscribe(queue, "idle", 0, wake=woken.append)
    publish(queue, "m")
    assert woken == []

    idle.credit.resize(1)
    queue.refresh(idle)

    assert woken == [idle]


@pytest.mark.parametrize("event", ["release", "decline", "fail", "close", "redrive", "promotion"])
def test_dg4_what_becomes_ready_wakes_another_consumer_at_once(woken: list[Consumer], event: str) -> None:
    queue = Queue()
    holder = subscribe(queue, "holder", 1)
    publish(queue, "held")
    held = queue.deliver(holder, 0.0)
    assert held is not None
    idle = subscribe(queue, "idle", wake=woken.append)
    publish(queue, "later", deliver_at=5.0)
    if event == "redrive":
        queue.reject(held, holder)
        queue.remove_consumer(holder)
    assert woken == []

    if event in ("release", "decline", "fail"):
        getattr(queue, event)(held, holder)
    elif event == "close":
        queue.remove_consumer(holder)
    elif event == "redrive":
        queue.control.redrive(held)
    else:
        queue.keep_house(5.0)

    assert woken == [idle]


def test_dg4_a_queue_that_goes_on_wakes_as_many_as_there_is_work_for(woken: list[Consumer]) -> None:
    queue = Queue()
    idle = [subscribe(queue, str(number), wake=woken.append) for number in range(3)]
    queue.control.pause()
    publish(queue, "1", "2")
    assert woken == []

    queue.control.resume()

    assert woken == idle[:2]


# 5. Fairness.


def serve(queue: Queue, woken: list[Consumer], messages: int) -> Counter[str]:
    """Each that is woken pulls and settles one message at a time, as long as there are any."""
    served: Counter[str] = Counter()
    for number in range(messages):
        publish(queue, str(number))
        while woken:
            consumer = woken.pop(0)
            while (entry := queue.deliver(consumer, 0.0)) is not None:
                served[consumer.name] += 1
                queue.accept(entry, consumer)
    return served


def test_dg5_equals_that_are_idle_take_turns(woken: list[Consumer]) -> None:
    queue = Queue()
    for number in range(7):
        subscribe(queue, str(number), 1, wake=woken.append)

    served = serve(queue, woken, 700)

    assert set(served.values()) == {100}


def test_dg5_equals_that_are_always_ready_get_equal_shares() -> None:
    queue = Queue()
    consumers = [subscribe(queue, str(number)) for number in range(7)]
    publish(queue, *map(str, range(700)))
    served = Counter(delivered[0].name for _ in range(700) if (delivered := queue.deliver_next(0.0)))

    assert {served[consumer.name] for consumer in consumers} == {100}


# 6. Consumer priorities.


def test_dg6_a_lower_priority_gets_nothing_of_what_a_higher_one_can_take() -> None:
    queue = Queue()
    low, high = subscribe(queue, "low", priority=1), subscribe(queue, "high", 2, priority=2)
    publish(queue, "1", "2", "3")

    assert drain(queue, low) == []
    assert drain(queue, high) == ["1", "2"]
    assert drain(queue, low) == ["3"]


@pytest.mark.parametrize("end", ["no credit", "paused", "declined", "closed", "gone for good"])
def test_dg6_when_a_higher_priority_ends_a_lower_one_is_woken_without_an_arrival(
    woken: list[Consumer], end: str
) -> None:
    queue = Queue()
    low, high = subscribe(queue, "low", wake=woken.append), subscribe(queue, "high", 1, priority=2)
    if end == "no credit":
        publish(queue, "1")
    publish(queue, "2")
    entry = queue.deliver(high, 0.0) if end in ("no credit", "declined", "gone for good") else None
    if end == "paused":
        high.paused = True
        queue.refresh(high)
    if end == "declined" and entry is not None:
        queue.decline(entry, high)
    if end in ("closed", "gone for good"):
        queue.remove_consumer(high)

    assert woken == [low]
    assert drain(queue, low) == ["2"]


def test_dg6_one_byte_of_credit_is_in_nobodys_way() -> None:
    queue = Queue()
    low = subscribe(queue, "low")
    subscribe(queue, "high", size_bytes=1, priority=2)
    publish(queue, "large", size=1000)

    assert drain(queue, low) == ["large"]


# 7. Queues out of order of arrival.


@pytest.mark.parametrize(
    "rules", [Rules(), Rules(kind="sorted", key="key"), Rules(kind="sorted", key="key", hold=True)]
)
def test_dg7_what_comes_first_is_next_for_everybody_whatever_it_has_looked_at(rules: Rules) -> None:
    queue = Queue(rules=rules)
    plain, picky = subscribe(queue, "plain"), subscribe(queue, "picky", selector=RED)
    publish(queue, "late", headers={"key": "b"})
    assert drain(queue, picky) == []

    publish(queue, "early", headers={"key": "a", "color": "red"}, priority=9)

    entry = queue.deliver(picky, 0.0)
    assert entry is not None
    assert entry.message.id == "early"
    queue.release(entry, picky)
    assert drain(queue, plain) == ["early", "late"]


def test_dg7_what_is_given_back_retakes_its_place() -> None:
    queue = Queue()
    consumer, other = subscribe(queue), subscribe(queue, "other", selector=RED)
    publish(queue, "1", "2", "3", headers={"color": "red"})
    held = [queue.deliver(consumer, 0.0) for _ in range(3)]
    assert drain(queue, other) == []

    for entry in (held[1], held[0], held[2]):
        assert entry is not None
        queue.release(entry, consumer)

    assert drain(queue, other) == ["1", "2", "3"]


# 8. Browsers.


def test_dg8_a_browser_sees_each_entry_once_in_order_and_changes_nothing() -> None:
    queue = Queue()
    browser, consumer = subscribe(queue, "browser", browser=True), subscribe(queue)
    publish(queue, "1", "2", "3", priority=5)
    first = queue.deliver(browser, 0.0)
    assert first is not None
    taken = queue.deliver(consumer, 0.0)
    assert taken is first
    publish(queue, "high", priority=9)
    queue.release(taken, consumer)

    assert drain(queue, browser) == ["high", "2", "3"]
    assert drain(queue, browser) == []
    assert names(queue.browse()) == ["high", "1", "2", "3"]


def test_dg8_a_browser_is_shown_what_was_ready_only_later_than_what_stands_behind_it() -> None:
    queue = Queue(rules=Rules(due_first=False))
    browser = subscribe(queue, browser=True)
    publish(queue, "late", deliver_at=5.0)
    publish(queue, "early")
    assert drain(queue, browser) == ["early"]

    queue.promote(5.0)

    assert drain(queue, browser, 5.0) == ["late"]


def test_dg8_a_browser_that_waits_for_credit_is_told_when_there_is_some(woken: list[Consumer]) -> None:
    queue = Queue()
    browser = subscribe(queue, size_bytes=10, browser=True, wake=woken.append)
    publish(queue, "1", "2", size=6)
    first = queue.deliver(browser, 0.0)
    assert first is not None
    assert queue.deliver(browser, 0.0) is None
    woken.clear()

    queue.accept(first, browser)

    assert woken == [browser]
    assert drain(queue, browser) == ["2"]


@pytest.mark.parametrize("event", ["the large one goes", "a small one comes before it"])
def test_dg8_a_browser_stuck_at_a_large_message_is_told_when_it_can_go_on(
    woken: list[Consumer], event: str
) -> None:
    queue = Queue()
    browser = subscribe(queue, size_bytes=10, browser=True, wake=woken.append)
    [large] = publish(queue, "large", size=11)
    publish(queue, "small", size=1)
    assert queue.deliver(browser, 0.0) is None
    woken.clear()

    if event == "the large one goes":
        queue.control.remove(large)
    else:
        publish(queue, "small", size=1, priority=9)

    assert woken == [browser]
    assert drain(queue, browser) == ["small"]


# 9. Consumers of several queues.


def test_dg9_one_credit_holds_over_several_queues_that_take_turns() -> None:
    broker = Broker()
    queues = [broker.declare(name) for name in "abc"]
    target = Target(WindowCredit(7))
    for queue in queues:
        target.subscribe(queue)
        publish(queue, *[f"{queue.name}{number}" for number in range(5)])

    pulled = [delivered[1].message.id for _ in range(10) if (delivered := target.pull(0.0))]

    assert pulled == ["a0", "b0", "c0", "a1", "b1", "c1", "a2"]


@pytest.mark.parametrize("end", ["empty", "paused", "deleted"])
def test_dg9_a_queue_that_ends_does_not_stop_the_others(end: str) -> None:
    broker = Broker()
    one, other = broker.declare("one"), broker.declare("other")
    target = Target(WindowCredit())
    target.subscribe(one)
    target.subscribe(other)
    publish(one, "1") if end != "empty" else None
    publish(other, "2", "3")
    if end == "paused":
        one.control.pause()
    if end == "deleted":
        one.control.delete(0.0)

    pulled = [delivered[1].message.id for _ in range(3) if (delivered := target.pull(0.0))]

    assert pulled == ["2", "3"]


def test_dg9_a_wake_up_from_any_queue_is_enough_and_lost_credit_is_handed_over_in_all(
    woken: list[Consumer],
) -> None:
    broker = Broker()
    one, other = broker.declare("one"), broker.declare("other")
    told: list[Target] = []
    target = Target(WindowCredit(1), wake=told.append)
    target.subscribe(one)
    target.subscribe(other)
    rival = subscribe(other, "rival", wake=woken.append, priority=-1)
    publish(other, "2")
    publish(one, "1")
    assert told == [target, target]

    assert target.pull(0.0) is not None

    assert woken == [rival]  # the target cannot take what waits in the other queue any more


def held_by(consumers: tuple[Consumer, ...]) -> list[Entry]:
    return [entry for consumer in consumers for entry in consumer.unsettled]


def test_dg9_settling_in_one_queue_is_credit_in_the_other() -> None:
    broker = Broker()
    one, other = broker.declare("one"), broker.declare("other")
    told: list[Target] = []
    target = Target(WindowCredit(1), wake=told.append)
    first = target.subscribe(one)
    target.subscribe(other)
    publish(one, "1")
    publish(other, "2")
    assert target.pull(0.0) is not None
    assert target.pull(0.0) is None
    told.clear()

    [entry] = held_by(target.consumers)
    one.accept(entry, first)

    assert told == [target]
    assert target.pull(0.0) is not None


@pytest.mark.parametrize("arrival", ["unwanted", "too large", "declined"])
def test_dg4_a_stuck_consumer_is_told_of_its_credit_whatever_has_come_before_what_it_waits_for(
    woken: list[Consumer], arrival: str
) -> None:
    queue = Queue()
    consumer = subscribe(queue, size_bytes=20, selector=Selector("color <> 'blue'"), wake=woken.append)
    publish(queue, "taken", size=6, priority=5, headers={"color": "red"})
    publish(queue, "large", size=15, headers={"color": "red"})
    taken = queue.deliver(consumer, 0.0)
    assert taken is not None
    assert queue.deliver(consumer, 0.0) is None
    woken.clear()

    if arrival != "declined":
        color, size = ("blue", 0) if arrival == "unwanted" else ("red", 16)
        publish(queue, "before", size=size, priority=5, headers={"color": color})
        assert woken == []
        queue.accept(taken, consumer)
    else:
        queue.decline(taken, consumer)

    assert woken == [consumer]


def test_dg4_a_consumer_stuck_at_a_message_whose_group_goes_to_another_is_told_of_the_next(
    woken: list[Consumer],
) -> None:
    queue = Queue(rules=Rules(groups=lambda **position: AssignedGroups("group", **position)))
    picky = subscribe(queue, "picky", size_bytes=10, selector=RED, wake=woken.append)
    other = subscribe(queue, "other", 1)
    publish(queue, "first", headers={"group": "b"})
    publish(queue, "large", size=11, headers={"group": "b", "color": "red"})
    publish(queue, "small", headers={"color": "red"})
    assert drain(queue, picky) == []
    woken.clear()

    assert queue.deliver(other, 0.0) is not None

    assert woken == [picky]
    assert drain(queue, picky) == ["small"]
