"""Wrong or rare uses, which must not cost a message, a wake-up or memory."""

from functools import partial
from math import nan
from typing import Any

import pytest

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.decisions.places import check_levels
from django_mq.engine.states import CLAIMED, GONE, HELD, READY, RETURNED, STEALABLE
from django_mq.errors import IllegalMove, OutOfRange, PublishError
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.admission import Exclusivity
from django_mq.inprocess.consumers.consumer import Client, Consumer
from django_mq.inprocess.consumers.groups import AssignedGroups
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, names, publish, subscribe


def test_what_expires_in_housekeeping_is_not_kept_for_somebody_who_never_asks() -> None:
    queue = Queue()
    publish(queue, "m", expires_at=1.0)

    queue.keep_house(1.0)

    assert queue.expire(1.0) == []


@pytest.mark.parametrize("priority", [5.0, 5.5, "5", None])
def test_a_priority_that_is_no_whole_number_costs_no_message(priority: Any) -> None:
    queue = Queue()
    [entry] = publish(queue, "m")

    with pytest.raises(OutOfRange):
        queue.control.change_priority(entry, priority, 0.0)

    assert names(queue.browse()) == ["m"]


def test_a_number_too_long_to_write_is_a_group_like_any_other() -> None:
    queue = Queue(rules=Rules(groups=partial(AssignedGroups, "group")))
    publish(queue, "huge", headers={"group": 10**5000})
    publish(queue, "next")

    assert drain(queue, subscribe(queue)) == ["huge", "next"]


def test_a_unit_of_work_does_not_take_one_queue_for_another() -> None:
    broker = Broker()
    here, there = broker.declare("here"), broker.declare("there")
    publish(here, "m")
    consumer = subscribe(here)
    entry = here.deliver(consumer, 0.0)
    assert entry is not None

    assert not broker.begin().accept(there, entry, consumer)
    assert here.accept(entry, consumer)


def test_only_one_unit_of_work_has_a_settlement() -> None:
    broker = Broker()
    queue = broker.declare("q")
    publish(queue, "m")
    consumer = subscribe(queue)
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    first, second = broker.begin(), broker.begin()

    assert (first.accept(queue, entry, consumer), second.accept(queue, entry, consumer)) == (True, False)
    first.rollback(0.0)
    assert entry.state is READY


def test_a_lent_entry_cannot_be_offered() -> None:
    queue = Queue()

    with pytest.raises(IllegalMove):
        queue.offer(Entry(message(), arrival=1, state=STEALABLE))

    assert queue.statistics.depth == 0


def test_consumers_that_are_enough_for_new_conditions_are_woken() -> None:
    queue, woken = Queue(), list[Consumer]()
    consumer = subscribe(queue, wake=woken.append)

    queue.control.change(Rules(consumers_before=1))
    publish(queue, "m")

    assert woken == [consumer]


def test_a_gate_that_waits_for_a_settlement_opens_with_it() -> None:
    queue, woken = Queue(rules=Rules(consumers_before=1)), list[Consumer]()
    first = subscribe(queue)
    publish(queue, "1", "2")
    entry = queue.deliver(first, 0.0)
    assert entry is not None
    queue.remove_consumer(first, give_back=False)
    second = subscribe(queue, wake=woken.append)
    assert woken == []

    queue.accept(entry, first)

    assert woken == [second]


def test_a_message_is_either_returned_or_had_by_a_consumer_that_accepts_at_once() -> None:
    queue = Queue()
    consumer = subscribe(queue, auto_accept=True)

    entry = queue.publish(message(), 0.0, immediate=True)

    assert entry.state is CLAIMED
    assert queue.deliver(consumer, 0.0) is entry
    assert (entry.state, queue.statistics.accepted) == (GONE, 1)


def test_held_entries_are_found_in_a_queue_that_holds_no_more() -> None:
    queue = Queue(rules=Rules(hold=True))
    consumer = subscribe(queue)
    publish(queue, "m", deliver_at=5.0)

    queue.control.change(Rules())

    assert drain(queue, consumer, 5.0) == ["m"]


def test_a_held_entry_is_found_in_a_queue_that_never_holds() -> None:
    queue = Queue()
    consumer = subscribe(queue)

    queue.offer(Entry(message(), arrival=1, state=HELD, due_at=5.0))

    assert drain(queue, consumer, 4.0) == []
    assert drain(queue, consumer, 5.0) == ["m"]


def test_a_queue_of_another_policy_belongs_to_who_is_there() -> None:
    queue = Queue(rules=Rules(exclusivity=Exclusivity.SESSION))
    first = subscribe(queue, client=Client(session="s", connection="c"))

    queue.control.change(Rules(exclusivity=Exclusivity.CONNECTION))

    assert queue.admission.owner == "c"
    second = subscribe(queue, client=Client(session="other", connection="c"))
    for consumer in (first, second):
        queue.remove_consumer(consumer)
    assert queue.admission.owner is None


@pytest.mark.parametrize("retry_at", [nan, "5"])
def test_a_time_that_is_no_number_does_not_stop_the_schedule(retry_at: Any) -> None:
    queue = Queue()
    consumer = subscribe(queue)
    publish(queue, "m")
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None

    for settle in (queue.release, queue.fail):
        with pytest.raises(OutOfRange):
            settle(entry, consumer, retry_at=retry_at)

    assert queue.release(entry, consumer, retry_at=5.0) is RETURNED
    assert drain(queue, consumer, 5.0) == ["m"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Backoff(base_seconds=nan),
        lambda: Backoff(base_seconds=1.0, cap_seconds=nan),
        lambda: Lifetime(most=nan),
        lambda: Limits(messages=nan),  # type: ignore[arg-type]
        lambda: check_levels(2.5),  # type: ignore[arg-type]
        lambda: check_levels("3"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_number_is_out_of_range(make: Any) -> None:
    with pytest.raises(OutOfRange):
        make()


def test_a_message_is_not_moved_to_where_it_would_be_dropped() -> None:
    broker = Broker()
    queue, target = broker.declare("q"), broker.declare("t", Rules(purge_on_no_consumers=True))
    [entry] = publish(queue, "m")

    with pytest.raises(PublishError):
        queue.move(entry, target, 0.0)

    assert entry.state is READY


def test_the_overdue_are_taken_in_order_by_who_comes_before_them() -> None:
    queue = Queue(rules=Rules(hold=True))
    consumer = subscribe(queue)
    publish(queue, "passed", deliver_at=5.0)
    publish(queue, "seen")
    publish(queue, "a", "b", "c", deliver_at=5.0)
    assert queue.deliver(consumer, 0.0) is not None

    assert drain(queue, consumer, 5.0) == ["a", "b", "c"]


def test_a_ring_takes_what_is_lent_in_its_turn() -> None:
    queue = Queue(rules=Rules(overflow=Overflow.RING, limits=Limits(messages=3)))
    first, high, low = [
        publish(queue, name, priority=priority)[0] for name, priority in (("1", 4), ("2", 9), ("3", 0))
    ]
    lender = subscribe(queue, stealable=True)
    assert [queue.deliver(lender, 0.0), queue.deliver(lender, 0.0)] == [high, first]

    publish(queue, "4", "5", priority=9)

    assert [entry.state for entry in (low, first, high)] == [GONE, GONE, STEALABLE]
