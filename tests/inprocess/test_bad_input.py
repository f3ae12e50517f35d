"""What cannot be asked of a queue: a typed error, or nothing at all; never a queue that has changed."""

from __future__ import annotations

from contextlib import contextmanager
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.selector import Selector
from django_mq.engine.states import VOID, Fate, State
from django_mq.errors import (
    AccessRefused,
    DuplicateMessage,
    IllegalMove,
    ListKeyMissing,
    MalformedSelector,
    OutOfRange,
    QueueDeleted,
    QueueFull,
    QueueInUse,
    UncountedUnit,
    UnknownConsumer,
    UnknownListKind,
    UnknownQueue,
)
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.admission import Exclusivity
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.credit import OverdraftCredit, SpendingCredit
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import die, drain, entry, names, publish, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.inprocess.entries.contents import Statistics
    from django_mq.inprocess.entries.entry import Entry

ENTRY = ("state", "owner", "order", "attempts", "redelivered", "due_at", "expires_at", "doomed", "claim_number")
CREDIT = ("messages", "size_bytes", "outstanding", "outstanding_bytes", "is_open")


def look(thing: object, attributes: tuple[str, ...]) -> list[object]:
    return [getattr(thing, name, None) for name in attributes]


def counters(statistics: Statistics) -> list[object]:
    return look(statistics, type(statistics).__slots__)


def snapshot(queue: Queue) -> dict[str, object]:
    """All that can be seen of a queue."""
    return {
        "entries": [(each, *look(each, ENTRY)) for each in queue.entries()],
        "ready": list(queue.browse()),
        "scheduled": queue.scheduled(),
        "statistics": counters(queue.statistics),
        "counts": queue.counts(),
        "consumers": [
            (each, each.interest, dict(each.unsettled), list(each.reserved), look(each.credit, CREDIT))
            for each in queue.consumers()
        ],
        "owners": queue.subscribers.group_owners(),
        "next": queue.next_time(),
        "paused": queue.paused,
        "rules": queue.rules,
        "deleted": queue.deleted,
    }


@contextmanager
def unchanged(*queues: Queue) -> Iterator[None]:
    before = [snapshot(queue) for queue in queues]
    yield
    assert [snapshot(queue) for queue in queues] == before


@pytest.fixture
def queue() -> Queue:
    return Queue("queue")


@pytest.fixture
def holder(queue: Queue) -> Consumer:
    """A consumer that holds the first of four messages, of which one is scheduled."""
    holder = subscribe(queue, "holder", 5)
    publish(queue, "held", "waiting", "last", headers={"color": "red"}, now=10.0)
    publish(queue, "later", deliver_at=99.0, now=10.0)
    assert queue.deliver(holder, 10.0) is not None
    return holder


def held(consumer: Consumer) -> Entry:
    return next(iter(consumer.unsettled))


SETTLEMENTS: list[Callable[..., Fate]] = [Queue.accept, Queue.release, Queue.decline, Queue.fail, Queue.reject]


# Consumers.


def test_a_consumer_of_another_queue_is_not_served(queue: Queue, holder: Consumer) -> None:
    other = Queue("other")
    stranger = subscribe(other)

    with unchanged(queue, other), pytest.raises(UnknownConsumer):
        queue.deliver(stranger, 10.0)


def test_a_consumer_that_is_subscribed_nowhere_gets_nothing(queue: Queue, holder: Consumer) -> None:
    with unchanged(queue):
        assert queue.deliver(Consumer("stranger"), 10.0) is None


def test_a_consumer_is_subscribed_once(queue: Queue, holder: Consumer) -> None:
    with unchanged(queue):
        assert not queue.add_consumer(holder)


def test_a_consumer_is_subscribed_to_one_queue(queue: Queue, holder: Consumer) -> None:
    other = Queue("other")

    with unchanged(queue, other):
        assert not other.add_consumer(holder)

    assert queue.deliver(holder, 10.0) is not None


def test_a_consumer_that_still_holds_something_does_not_come_back(queue: Queue, holder: Consumer) -> None:
    queue.remove_consumer(holder, give_back=False)

    with unchanged(queue), pytest.raises(IllegalMove):
        queue.add_consumer(holder)


def test_removing_a_consumer_of_another_queue_touches_neither(queue: Queue, holder: Consumer) -> None:
    other = Queue("other")
    reserved = queue.publish(message("urgent", priority=9), 10.0, immediate=True)

    with unchanged(queue, other):
        assert other.remove_consumer(holder) == []
        assert other.control.clear() == 0

    assert queue.deliver(holder, 10.0) is reserved


def test_a_consumer_is_removed_once(queue: Queue, holder: Consumer) -> None:
    queue.remove_consumer(holder)

    with unchanged(queue):
        assert queue.remove_consumer(holder) == []


@pytest.mark.parametrize("amount", [-1, 2**63 + 1, 1.5, True, "7", nan])
def test_credit_that_cannot_be_is_refused_and_the_old_one_stays(
    queue: Queue, holder: Consumer, amount: Any
) -> None:
    with unchanged(queue):
        for change in (holder.credit.resize, holder.credit.add):
            with pytest.raises(OutOfRange):
                change(amount)
            with pytest.raises(OutOfRange):
                change(1, amount)
        queue.refresh(holder)


def test_the_largest_credit_is_credit(queue: Queue, holder: Consumer) -> None:
    holder.credit.add(2**63, 2**63)
    holder.credit.add(2**63, 2**63)
    queue.refresh(holder)

    assert drain(queue, holder, 10.0) == ["waiting", "last"]


def test_no_credit_at_all_is_no_error(queue: Queue) -> None:
    broke = Consumer("broke", SpendingCredit())
    queue.add_consumer(broke)
    publish(queue, "m")

    with unchanged(queue):
        assert queue.deliver(broke, 0.0) is None


def test_a_credit_is_asked_for_what_it_counts_only() -> None:
    credit = OverdraftCredit(3)

    with pytest.raises(UncountedUnit):
        credit.add(1, 1)

    assert credit.size_bytes == 3


# Settling.


@pytest.mark.parametrize("settle", SETTLEMENTS)
def test_what_was_settled_is_not_settled_again(
    queue: Queue, holder: Consumer, settle: Callable[..., Fate]
) -> None:
    first = held(holder)
    queue.accept(first, holder)

    with unchanged(queue):
        assert settle(queue, first, holder) is VOID


@pytest.mark.parametrize("settle", SETTLEMENTS)
def test_what_another_holds_is_not_settled(queue: Queue, holder: Consumer, settle: Callable[..., Fate]) -> None:
    other = subscribe(queue, "other")

    with unchanged(queue):
        assert settle(queue, held(holder), other) is VOID
        assert not queue.begin_settle(held(holder), other)


@pytest.mark.parametrize("settle", SETTLEMENTS)
def test_an_earlier_delivery_is_not_settled(queue: Queue, holder: Consumer, settle: Callable[..., Fate]) -> None:
    first = held(holder)
    queue.release(first, holder)
    assert queue.deliver(holder, 10.0) is first

    with unchanged(queue):
        assert settle(queue, first, holder, 1) is VOID
        assert settle(queue, first, holder, 7) is VOID


@pytest.mark.parametrize("settle", SETTLEMENTS)
def test_another_queue_settles_nothing_of_this_one(
    queue: Queue, holder: Consumer, settle: Callable[..., Fate]
) -> None:
    other = Queue("other", Rules(max_attempts=1, backoff=Backoff(base_seconds=1)))

    with unchanged(queue, other):
        assert settle(other, held(holder), holder) is VOID


@pytest.mark.parametrize("settle", SETTLEMENTS)
def test_what_was_never_delivered_is_not_settled(
    queue: Queue, holder: Consumer, settle: Callable[..., Fate]
) -> None:
    waiting = next(queue.browse())

    with unchanged(queue):
        assert settle(queue, waiting, holder) is VOID
        assert settle(queue, entry("unheard of"), holder) is VOID


@pytest.mark.parametrize("settle", SETTLEMENTS)
def test_what_was_removed_is_not_settled(queue: Queue, holder: Consumer, settle: Callable[..., Fate]) -> None:
    first = held(holder)
    queue.control.remove(first)

    with unchanged(queue):
        assert settle(queue, first, holder) is VOID


def test_what_is_given_back_to_a_deleted_queue_is_a_dead_letter() -> None:
    broker = Broker()
    dead = broker.declare("dead")
    queue = broker.declare("queue", Rules(dead_letter_queue="dead"))
    consumer = subscribe(queue)
    publish(queue, "held")
    first = queue.deliver(consumer, 0.0)
    assert first is not None
    queue.control.delete(1.0)

    assert queue.release(first, consumer)

    assert (queue.entries(), names(dead.browse())) == ([], ["held"])
    with unchanged(queue, dead):
        assert queue.release(first, consumer) is VOID


# Entries of elsewhere.


@pytest.mark.parametrize("state", ["ready", "scheduled", "dead", "claimed", "stealable"])
def test_steering_an_entry_of_another_queue_does_nothing(state: str) -> None:
    queue, home, third = Queue("queue"), Queue("home"), Queue("third")
    [each] = publish(home, "m", deliver_at=9.0 if state == "scheduled" else None)
    if state == "dead":
        die(home)
    if state in ("claimed", "stealable"):
        home.deliver(subscribe(home, stealable=state == "stealable"), 0.0)
    assert each.state.name.lower() == state

    with unchanged(queue, home, third):
        assert not queue.move(each, third, 1.0)
        assert queue.control.change_priority(each, 9, 1.0) is None
        assert not queue.control.deliver_now(each)
        assert not queue.control.redrive(each)
        assert not queue.control.cancel(each)
        assert not queue.control.remove(each)
        assert not queue.control.discard(each)
    assert not each.doomed


@pytest.mark.parametrize("state", [State.CLAIMED, State.GONE])
def test_what_is_claimed_or_gone_is_not_offered(queue: Queue, holder: Consumer, state: State) -> None:
    with unchanged(queue), pytest.raises(IllegalMove):
        queue.offer(entry(state=state))


# Steering.


@pytest.mark.parametrize("priority", [-1, 10, 10**9, 9.5, nan, inf])
def test_a_priority_outside_0_to_9_is_refused(queue: Queue, holder: Consumer, priority: Any) -> None:
    waiting = next(queue.browse())

    with unchanged(queue), pytest.raises(OutOfRange):
        queue.control.change_priority(waiting, priority, 10.0)


@pytest.mark.parametrize("priority", [-(10**9), -1, 10, 10**9])
def test_a_message_of_an_odd_priority_stands_in_the_outermost_level(queue: Queue, priority: int) -> None:
    [each] = publish(queue, "odd", priority=priority)

    assert each.level == (0 if priority < 0 else 9)


def test_a_message_is_not_moved_to_the_queue_it_is_in(queue: Queue, holder: Consumer) -> None:
    waiting = next(queue.browse())

    with unchanged(queue), pytest.raises(IllegalMove):
        queue.move(waiting, queue, 10.0)


def test_what_the_target_refuses_is_not_moved(queue: Queue, holder: Consumer) -> None:
    full = Queue("full", Rules(limits=Limits(messages=0), overflow=Overflow.REJECT))
    waiting = next(queue.browse())

    with unchanged(queue, full), pytest.raises(QueueFull):
        queue.move(waiting, full, 10.0)


def test_nothing_is_moved_to_a_deleted_queue(queue: Queue, holder: Consumer) -> None:
    gone = Queue("gone")
    gone.control.delete(10.0)
    waiting = next(queue.browse())

    with unchanged(queue, gone), pytest.raises(QueueDeleted):
        queue.move(waiting, gone, 10.0)


def test_a_queue_keeps_its_kind(queue: Queue, holder: Consumer) -> None:
    with unchanged(queue):
        with pytest.raises(IllegalMove):
            queue.control.change(Rules(kind="fifo"))
        with pytest.raises(IllegalMove):
            queue.control.change(Rules(key="key"))


# Deleted queues.


def test_a_deleted_queue_takes_nothing_in() -> None:
    queue = Queue()
    queue.control.delete(0.0)

    with unchanged(queue):
        for refused in (
            lambda: queue.publish(message(), 1.0),
            lambda: queue.publish(message(), 1.0, immediate=True),
            lambda: queue.offer(entry(arrival=1)),
            lambda: queue.add_consumer(Consumer("late")),
            lambda: queue.arrivals.admit([message()]),
        ):
            with pytest.raises(QueueDeleted):
                refused()


def test_other_rules_do_not_open_a_deleted_queue() -> None:
    queue = Queue()
    queue.control.delete(0.0)
    queue.control.change(Rules(levels=2))

    with unchanged(queue), pytest.raises(QueueDeleted):
        queue.publish(message(), 1.0)


def test_a_queue_is_deleted_once() -> None:
    queue = Queue()
    publish(queue, "m")
    queue.control.delete(0.0)

    with unchanged(queue):
        queue.control.delete(1.0)


def test_what_is_not_declared_is_named() -> None:
    broker = Broker()

    with pytest.raises(UnknownQueue, match="nowhere"):
        broker.queue("nowhere")
    with pytest.raises(UnknownQueue, match="nowhere"):
        broker.delete("nowhere", 0.0)


def test_a_queue_that_others_send_to_is_not_deleted() -> None:
    broker = Broker()
    dead = broker.declare("dead")
    broker.declare("queue", Rules(dead_letter_queue="dead"))

    with unchanged(dead), pytest.raises(QueueInUse, match="queue"):
        broker.delete("dead", 0.0)


# Messages.


def test_a_duplicate_changes_nothing(queue: Queue) -> None:
    queue.publish(message("first", duplicate_id="same"), 0.0)

    with unchanged(queue), pytest.raises(DuplicateMessage):
        queue.publish(message("second", duplicate_id="same"), 1.0)


def test_a_full_queue_stays_as_it_is() -> None:
    queue = Queue(rules=Rules(limits=Limits(messages=1), overflow=Overflow.REJECT))
    publish(queue, "only")

    with unchanged(queue), pytest.raises(QueueFull):
        publish(queue, "one more")


def test_what_was_refused_is_no_duplicate_later() -> None:
    queue = Queue(rules=Rules(limits=Limits(messages=0), overflow=Overflow.REJECT))
    with pytest.raises(QueueFull):
        queue.publish(message(duplicate_id="same"), 0.0)
    queue.control.change(Rules())

    assert queue.publish(message(duplicate_id="same"), 1.0).state is State.READY


# Selectors.


@pytest.mark.parametrize(
    ("text", "position"),
    [("color =", 7), ("color = 'red", 8), ("(a = 1", 6), ("a = 1)", 5), ("a ~ 1", 2), ("NOT", 3), ("a = 1 b", 6)],
)
def test_a_selector_that_cannot_be_read_says_where(text: str, position: int) -> None:
    with pytest.raises(MalformedSelector) as caught:
        Selector(text)

    assert caught.value.position == position


@pytest.mark.parametrize(
    "text", ["color = 'red'", "color <> 'red'", "NOT (color = 'red')", "size > 3", "color LIKE 'r%'"]
)
def test_a_header_that_is_missing_is_unknown_and_matches_nothing(queue: Queue, text: str) -> None:
    picky = subscribe(queue, selector=Selector(text))
    publish(queue, "plain")

    with unchanged(queue):
        assert queue.deliver(picky, 0.0) is None


def test_a_selector_that_compares_what_cannot_be_compared_matches_nothing(queue: Queue) -> None:
    picky = subscribe(queue, selector=Selector("color > 5"))
    publish(queue, "text", headers={"color": "red"})
    publish(queue, "list", headers={"color": [1, 2]})

    with unchanged(queue):
        assert queue.deliver(picky, 0.0) is None


# Time.


def test_a_clock_that_goes_back_unmakes_nothing() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    publish(queue, "due", deliver_at=10.0, now=5.0)
    queue.promote(10.0)

    with unchanged(queue):
        assert queue.promote(1.0) == []
        assert queue.expire(1.0) == []
        assert queue.due.unhold(1.0) == []
        queue.keep_house(1.0)

    assert drain(queue, consumer, 1.0) == ["due"]


def test_after_a_clock_went_back_nothing_comes_early_or_never() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    drain(queue, consumer, 100.0)
    publish(queue, "due", deliver_at=50.0, now=20.0)
    publish(queue, "fleeting", expires_at=60.0, now=20.0)

    assert drain(queue, consumer, 49.0) == ["fleeting"]
    assert drain(queue, consumer, 50.0) == ["due"]


def test_time_that_stands_still_is_time(queue: Queue) -> None:
    consumer = subscribe(queue, messages=1)
    [each] = publish(queue, "m", now=5.0)
    for _ in range(3):
        assert queue.deliver(consumer, 5.0) is each
        queue.fail(each, consumer, retry_at=5.0, now=5.0)

    assert each.attempts == 3


# Rules that cannot be.


@pytest.mark.parametrize(
    "rules",
    [
        {"levels": 0},
        {"levels": 11},
        {"levels": -1},
        {"max_attempts": 0},
        {"max_consumers": 0},
        {"max_live": -1},
        {"resume_percent": 0},
        {"resume_percent": 101},
        {"resume_percent": nan},
        {"duplicates": -1},
        {"consumers_before": -1},
    ],
)
def test_rules_that_cannot_be_are_refused_when_they_are_made(rules: dict[str, Any]) -> None:
    with pytest.raises(OutOfRange):
        Rules(**rules)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limits(messages=-1),
        lambda: Limits(size_bytes=-1),
        lambda: Lifetime(least=-1.0),
        lambda: Backoff(base_seconds=-1),
        lambda: Backoff(jitter=2.0),
        lambda: WindowCredit(-1),
    ],
)
def test_the_parts_of_rules_are_refused_when_they_are_made(make: Callable[[], object]) -> None:
    with pytest.raises(OutOfRange):
        make()


@pytest.mark.parametrize("kind", ["sorted", "last_value"])
def test_a_kind_that_needs_a_key_is_not_made_without(kind: str) -> None:
    broker = Broker()

    with pytest.raises(ListKeyMissing):
        broker.declare("queue", Rules(kind=kind))

    assert list(broker) == []


def test_a_kind_that_nobody_knows_is_not_made() -> None:
    with pytest.raises(UnknownListKind, match="stack"):
        Queue(rules=Rules(kind="stack"))


def test_a_queue_that_names_itself_for_its_dead_keeps_them() -> None:
    broker = Broker()
    queue = broker.declare("queue", Rules(dead_letter_queue="queue"))
    consumer = subscribe(queue)
    publish(queue, "m")
    each = queue.deliver(consumer, 0.0)
    assert each is not None

    assert queue.reject(each, consumer, now=0.0) is Fate.DEAD

    assert queue.entries() == [each]


def test_a_queue_of_one_session_refuses_who_names_none() -> None:
    queue = Queue(rules=Rules(exclusivity=Exclusivity.SESSION))

    with unchanged(queue), pytest.raises(AccessRefused):
        queue.add_consumer(Consumer("stranger"))
