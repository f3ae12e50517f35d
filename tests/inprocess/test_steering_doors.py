"""What operators, and queues by themselves, do to entries and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.selector import Selector
from django_mq.engine.states import Fate, State
from django_mq.errors import OutOfRange
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import die, drain, names, publish, subscribe

if TYPE_CHECKING:
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry

RED = Selector("color = 'red'")


@pytest.fixture
def queue() -> Queue:
    return Queue("queue")


@pytest.fixture
def other() -> Queue:
    return Queue("other")


def take(queue: Queue, consumer: Consumer, now: float = 0.0) -> Entry:
    entry = queue.deliver(consumer, now)
    assert entry is not None
    return entry


# Moving and copying.


@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED, State.HELD, State.DEAD])
def test_whatever_nobody_holds_can_be_moved(other: Queue, state: State) -> None:
    queue = Queue(rules=Rules(hold=state is State.HELD))
    due_at = 9.0 if state in (State.SCHEDULED, State.HELD) else None
    [entry] = publish(queue, "m", deliver_at=due_at, expires_at=20.0, size=3)
    if state is State.DEAD:
        die(queue)

    assert queue.move(entry, other, 1.0)

    [arrived] = other.entries()
    assert arrived is not entry
    assert arrived.state is (State.READY if due_at is None else State.SCHEDULED)
    assert (arrived.due_at, arrived.expires_at, arrived.attempts) == (due_at, 20.0, 0)
    assert (entry.state, queue.entries(), queue.next_time()) == (State.GONE, [], None)


def test_what_somebody_holds_is_not_moved(queue: Queue, other: Queue) -> None:
    publish(queue, "m")
    entry = take(queue, subscribe(queue))

    assert not queue.move(entry, other, 0.0)
    assert (other.entries(), queue.entries()) == ([], [entry])


def test_a_moved_message_wakes_a_consumer_where_it_arrives(queue: Queue, other: Queue) -> None:
    woken: list[Consumer] = []
    consumer = subscribe(other, wake=woken.append)
    [entry] = publish(queue, "m")

    queue.move(entry, other, 0.0)

    assert woken == [consumer]


def test_a_moved_message_may_come_back_though_it_was_published_once(queue: Queue, other: Queue) -> None:
    entry = queue.publish(message("m", duplicate_id="once"), 0.0)
    queue.move(entry, other, 0.0)

    other.move(other.entries()[0], queue, 0.0)

    assert names(queue.entries()) == ["m"]


# Changing a priority.


def test_another_priority_is_another_place_at_the_end_of_its_level(queue: Queue) -> None:
    [entry, _] = publish(queue, "changed", "same", priority=1)
    publish(queue, "urgent", priority=9)

    copy = queue.control.change_priority(entry, 9, 0.0)

    assert copy is not None
    assert copy is not entry
    assert names(queue.browse()) == ["urgent", "changed", "same"]
    assert entry.state is State.GONE


def test_a_new_id_is_given_if_one_is_wanted(queue: Queue) -> None:
    [entry] = publish(queue, "old")

    copy = queue.control.change_priority(entry, 9, 0.0, new_id="new")

    assert copy is not None
    assert copy.message.id == "new"


@pytest.mark.parametrize("state", ["same priority", "claimed", "scheduled", "gone"])
def test_only_a_ready_entry_of_another_priority_is_changed(queue: Queue, state: str) -> None:
    [entry] = publish(queue, "m", priority=5, deliver_at=9.0 if state == "scheduled" else None)
    if state == "claimed":
        take(queue, subscribe(queue))
    if state == "gone":
        queue.control.remove(entry)

    assert queue.control.change_priority(entry, 5 if state == "same priority" else 9, 0.0) is None


def test_a_stuck_consumer_is_told_when_what_it_waits_for_changes_its_place(queue: Queue) -> None:
    woken: list[Consumer] = []
    consumer = subscribe(queue, size_bytes=5, wake=woken.append)
    [large] = publish(queue, "large", size=9, priority=5)
    publish(queue, "small", size=1, priority=5)
    assert queue.deliver(consumer, 0.0) is None
    woken.clear()

    queue.control.change_priority(large, 0, 0.0)

    assert woken == [consumer]
    assert drain(queue, consumer) == ["small"]


# Redriving, retrying, cancelling.


def test_what_is_rejected_is_dead_until_it_is_redriven(queue: Queue) -> None:
    publish(queue, "m")
    entry = die(queue)

    assert (entry.state, queue.next_time(), names(queue.browse())) == (State.DEAD, None, [])

    assert queue.control.redrive(entry)
    assert not queue.control.redrive(entry)
    assert (entry.state, entry.attempts, names(queue.browse())) == (State.READY, 0, ["m"])


def test_a_redriven_entry_wakes_a_consumer(queue: Queue) -> None:
    woken: list[Consumer] = []
    publish(queue, "m")
    entry = die(queue)
    consumer = subscribe(queue, wake=woken.append)

    queue.control.redrive(entry)

    assert woken == [consumer]


def test_the_dead_and_the_expired_are_sent_back_to_where_they_came_from() -> None:
    broker = Broker()
    dead = broker.declare("dead")
    one = broker.declare("one", Rules(dead_letter_queue="dead"))
    other = broker.declare("other", Rules(expiry_queue="dead"))
    publish(one, "died")
    die(one)
    publish(other, "expired", expires_at=1.0)
    other.keep_house(1.0)
    publish(dead, "of no origin")

    assert dead.redrive_all(2.0) == 2

    assert names(one.browse()) == ["died"]
    assert names(other.browse()) == ["expired"]
    assert names(dead.browse()) == ["of no origin"]


def test_what_the_origin_refuses_or_has_no_origin_any_more_stays_dead() -> None:
    broker = Broker()
    dead = broker.declare("dead")
    one = broker.declare("one", Rules(dead_letter_queue="dead"))
    gone = broker.declare("gone", Rules(dead_letter_queue="dead"))
    for queue in (one, gone):
        publish(queue, f"of {queue.name}")
        die(queue)
    one.control.change(Rules(dead_letter_queue="dead", overflow=Overflow.REJECT, limits=Limits(messages=0)))
    broker.delete("gone", 0.0)

    assert dead.redrive_all(1.0) == 0

    assert names(dead.browse()) == ["of one", "of gone"]


def test_a_cancelled_entry_is_gone_as_if_it_had_been_accepted(queue: Queue) -> None:
    [scheduled, ready] = [*publish(queue, "later", deliver_at=9.0), *publish(queue, "ready")]

    assert queue.control.cancel(scheduled)
    assert not queue.control.cancel(scheduled)
    assert not queue.control.cancel(ready)

    assert (queue.statistics.accepted, queue.due.next_due(), names(queue.entries())) == (1, None, ["ready"])


# Discarding and clearing.


def test_what_is_held_fast_goes_when_it_is_given_back(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "released", "accepted")
    released, accepted = take(queue, consumer), take(queue, consumer)
    assert not queue.control.discard(released)
    assert not queue.control.discard(accepted)

    assert queue.release(released, consumer) is Fate.DISCARDED
    assert queue.accept(accepted, consumer) is Fate.ACCEPTED

    assert queue.entries() == []
    assert (queue.statistics.killed, queue.statistics.accepted) == (1, 1)


def test_a_queue_is_cleared_of_what_can_be_taken_and_counts_that(queue: Queue) -> None:
    fast, lent = subscribe(queue, "fast", 1), subscribe(queue, "lent", 1, stealable=True)
    publish(queue, "held", "lent", "ready")
    publish(queue, "later", deliver_at=9.0)
    held, stolen = take(queue, fast), take(queue, lent)

    assert queue.control.clear() == 3

    assert queue.entries() == [held]
    assert queue.accept(stolen, lent) is Fate.VOID
    queue.remove_consumer(fast)
    assert (queue.entries(), queue.statistics.depth) == ([], 0)


def test_what_its_holder_left_with_is_cleared_too(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "m")
    entry = take(queue, consumer)
    queue.remove_consumer(consumer, give_back=False)

    assert queue.control.clear() == 0
    assert queue.release(entry, consumer) is Fate.DISCARDED


# Deleting.


def test_deleting_closes_consumers_and_makes_dead_letters_of_what_nobody_holds() -> None:
    broker = Broker()
    closed: list[Consumer] = []
    dead = broker.declare("dead")
    queue = broker.declare("queue", Rules(dead_letter_queue="dead"))
    consumer = subscribe(queue, messages=1, closed=closed.append)
    publish(queue, "held", "ready")
    publish(queue, "later", deliver_at=9.0)
    held = take(queue, consumer)

    queue.control.delete(1.0)

    assert (closed, queue.consumers(), queue.deleted) == ([consumer], [], True)
    assert sorted(names(dead.browse())) == ["later", "ready"]
    assert queue.accept(held, consumer) is Fate.ACCEPTED
    assert queue.statistics.depth == 0


# Immediate messages and single gets.


def test_an_immediate_message_is_the_consumers_that_can_take_it_now(queue: Queue) -> None:
    woken: list[Consumer] = []
    subscribe(queue, "blue only", selector=Selector("color = 'blue'"))
    consumer = subscribe(queue, wake=woken.append)

    entry = queue.publish(message("m"), 0.0, immediate=True)

    assert (entry.state, entry.owner, woken[-1]) == (State.CLAIMED, consumer, consumer)
    assert queue.deliver(consumer, 0.0) is entry
    assert queue.deliver(consumer, 0.0) is None


@pytest.mark.parametrize("why", ["no consumer", "no credit", "paused", "unwanted", "behind others", "scheduled"])
def test_an_immediate_message_that_nobody_can_take_is_not_kept(queue: Queue, why: str) -> None:
    all_options: dict[str, dict[str, Any]] = {"no credit": {"messages": 0}, "unwanted": {"selector": RED}}
    options = all_options.get(why, {})
    if why != "no consumer":
        subscribe(queue, **options)
    if why == "paused":
        queue.control.pause()
    if why == "behind others":
        publish(queue, "first", priority=9)

    due_at = 5.0 if why == "scheduled" else None
    entry = queue.publish(message("m", deliver_at=due_at), 0.0, immediate=True)

    assert entry.state is State.GONE
    assert names(queue.entries()) == (["first"] if why == "behind others" else [])


def test_an_immediate_message_waits_for_its_consumer_and_is_given_back_if_that_leaves(queue: Queue) -> None:
    consumer = subscribe(queue)
    queue.publish(message("m"), 0.0, immediate=True)

    assert names(queue.remove_consumer(consumer)) == ["m"]

    assert drain(queue, subscribe(queue, "next")) == ["m"]


@pytest.mark.parametrize("end", ["remove", "discard", "expire"])
def test_an_immediate_message_that_is_taken_away_is_not_handed_over(queue: Queue, end: str) -> None:
    consumer = subscribe(queue, messages=1, stealable=True)
    entry = queue.publish(message("m", expires_at=5.0), 0.0, immediate=True)
    publish(queue, "next")

    if end == "expire":
        queue.keep_house(5.0)
    else:
        assert getattr(queue.control, end)(entry)

    assert drain(queue, consumer, 5.0) == ["next"]


def test_what_a_consumer_took_before_it_left_can_be_given_back(queue: Queue) -> None:
    publish(queue, "m")
    consumer = subscribe(queue, transient=True)
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    queue.remove_consumer(consumer, give_back=False)

    assert queue.release(entry, consumer) is Fate.RETURNED

    assert names(queue.browse()) == ["m"]


def test_a_consumer_of_a_queue_that_is_only_looked_at_leaves_nothing_behind() -> None:
    queue = Queue(rules=Rules(nondestructive=True))
    publish(queue, "m")
    consumer = subscribe(queue, transient=True)
    assert queue.deliver(consumer, 0.0) is not None

    queue.remove_consumer(consumer, give_back=False)

    assert names(queue.browse()) == ["m"]
    assert not queue.contents.departed


def test_a_transient_consumer_does_not_delete_the_queue_as_it_leaves(queue: Queue) -> None:
    queue.control.change(Rules(auto_delete=True))

    queue.remove_consumer(subscribe(queue, transient=True))

    assert not queue.deleted


# Consumers and queues that go by themselves.


def test_a_consumer_that_closes_itself_does_so_at_the_end(queue: Queue) -> None:
    closed: list[Consumer] = []
    consumer = subscribe(queue, auto_close=True, closed=closed.append)
    publish(queue, "1", "2")

    assert drain(queue, consumer) == ["1", "2"]

    assert (closed, queue.consumers()) == ([consumer], [])
    assert len(consumer.unsettled) == 2


@pytest.mark.parametrize("why", ["credit", "bytes", "pause"])
def test_a_consumer_that_has_not_come_to_the_end_is_not_closed(queue: Queue, why: str) -> None:
    all_limits: dict[str, dict[str, Any]] = {"credit": {"messages": 1}, "bytes": {"size_bytes": 5}}
    limits = all_limits.get(why, {})
    consumer = subscribe(queue, auto_close=True, **limits)
    publish(queue, "1", "2", size=4)
    if why == "pause":
        queue.control.pause()

    drain(queue, consumer)

    assert queue.consumers() == [consumer]


def test_a_queue_goes_with_its_last_consumer() -> None:
    queue = Queue(rules=Rules(auto_delete=True))
    first, last = subscribe(queue), subscribe(queue)
    queue.remove_consumer(first)
    assert not queue.deleted

    queue.remove_consumer(last)

    assert queue.deleted


def test_messages_that_need_a_consumer_are_not_kept_without_one() -> None:
    queue = Queue(rules=Rules(purge_on_no_consumers=True))
    assert publish(queue, "early")[0].state is State.GONE
    consumer = subscribe(queue)
    publish(queue, "kept", "waiting")
    publish(queue, "later", deliver_at=9.0)
    take(queue, consumer)

    queue.remove_consumer(consumer)

    assert queue.entries() == []


# Live consumers.


def test_only_so_many_consumers_receive_and_the_next_follows_when_one_leaves() -> None:
    queue = Queue(rules=Rules(max_live=1))
    woken: list[Consumer] = []
    live, standby = subscribe(queue, "live"), subscribe(queue, "standby", wake=woken.append)
    publish(queue, "1", "2")
    assert drain(queue, standby) == []
    assert take(queue, live).message.id == "1"
    assert woken == []

    queue.remove_consumer(live, give_back=False)

    assert woken == [standby]
    assert drain(queue, standby) == ["2"]


def test_more_live_consumers_are_told_and_fewer_drive_out_nobody_who_may_stay() -> None:
    queue = Queue(rules=Rules(max_live=1))
    oldest, waiting = subscribe(queue, "oldest"), subscribe(queue, "waiting")
    urgent = subscribe(queue, "urgent", priority=5)
    queue.remove_consumer(oldest)
    publish(queue, "1", "2")
    queue.control.change(Rules(max_live=2))

    queue.control.change(Rules(max_live=1))

    assert drain(queue, waiting) == []
    assert drain(queue, urgent) == ["1", "2"]


# Other rules.


def test_other_rules_are_for_what_comes_from_now_on(queue: Queue) -> None:
    [before] = publish(queue, "before", priority=0)

    queue.control.change(Rules(levels=1, max_attempts=1))

    [after] = publish(queue, "after", priority=9)
    assert (before.level, after.level) == (0, 0)
    consumer = subscribe(queue)
    assert queue.fail(take(queue, consumer), consumer) is Fate.DEAD


def test_a_limit_of_attempts_that_cannot_be_changes_nothing(queue: Queue) -> None:
    with pytest.raises(OutOfRange):
        queue.control.change(Rules(max_attempts=0))

    assert queue.rules.max_attempts is None


# Turns.


def test_one_that_cannot_afford_its_first_entry_is_not_in_the_way_of_the_next_in_turn(queue: Queue) -> None:
    subscribe(queue, "high", size_bytes=5, priority=9)
    low = subscribe(queue, "low", selector=RED)
    publish(queue, "large", size=6)
    [small] = publish(queue, "small", size=1, headers={"color": "red"})

    assert queue.deliver_next(0.0) == (low, small)


def test_a_redriven_entry_is_not_shown_again_to_who_has_seen_it(queue: Queue) -> None:
    browser = subscribe(queue, browser=True)
    [entry, _] = publish(queue, "seen", "behind")
    assert queue.deliver(browser, 0.0) is entry

    die(queue)
    queue.control.redrive(entry)

    assert drain(queue, browser) == ["behind"]
