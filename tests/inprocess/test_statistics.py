import pytest

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.contents import Statistics
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import die, drain, publish, subscribe

CAUSES = ("accepted", "expired", "killed", "replaced")


def take(queue: Queue, consumer: Consumer) -> Entry:
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    return entry


def causes(queue: Queue) -> dict[str, int]:
    """How often each cause was counted, those that were not left out."""
    return {name: count for name in CAUSES if (count := getattr(queue.statistics, name))}


def test_a_new_queue_has_counted_nothing() -> None:
    statistics = Statistics()

    assert all(getattr(statistics, name) == 0 for name in Statistics.__slots__)
    assert (statistics.depth, statistics.depth_bytes) == (0, 0)


def test_what_comes_and_goes_is_counted_in_messages_and_bytes() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    publish(queue, "a", size=3)
    publish(queue, "b", size=4)
    queue.accept(take(queue, consumer), consumer)

    statistics = queue.statistics
    assert (statistics.enqueued, statistics.enqueued_bytes) == (2, 7)
    assert (statistics.dequeued, statistics.dequeued_bytes) == (1, 3)
    assert (statistics.depth, statistics.depth_bytes) == (1, 4)


def test_every_departure_has_a_cause() -> None:
    queue = Queue(rules=Rules(keep_dead=False))
    consumer = subscribe(queue)
    publish(queue, "accepted", "rejected")
    publish(queue, "expired", expires_at=1.0)
    publish(queue, "purged")
    queue.accept(take(queue, consumer), consumer)
    queue.reject(take(queue, consumer), consumer)
    queue.expire(1.0)
    queue.control.purge()

    assert causes(queue) == {"accepted": 1, "killed": 2, "expired": 1}
    assert queue.statistics.dequeued == 4


def test_what_a_ring_gives_up_was_replaced() -> None:
    queue = Queue(rules=Rules(overflow=Overflow.RING, limits=Limits(messages=1)))
    publish(queue, "1", "2", "3")

    assert causes(queue) == {"replaced": 2}


def test_an_older_value_was_replaced() -> None:
    queue = Queue(rules=Rules(kind="last_value", key="key"))
    publish(queue, "1", "2", headers={"key": "same"})

    assert causes(queue) == {"replaced": 1}


def test_what_is_moved_or_changed_has_departed_and_nothing_more() -> None:
    queue, other = Queue(), Queue()
    [moved, changed] = publish(queue, "moved", "changed", size=2)
    queue.move(moved, other, 0.0)
    queue.control.change_priority(changed, 9, 0.0)

    assert causes(queue) == {}
    assert (queue.statistics.enqueued, queue.statistics.dequeued, queue.statistics.depth) == (3, 2, 1)
    assert (other.statistics.enqueued, other.statistics.depth_bytes) == (1, 2)


def test_what_is_given_back_has_not_departed() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    publish(queue, "m")
    queue.release(take(queue, consumer), consumer)

    assert (queue.statistics.enqueued, queue.statistics.dequeued) == (1, 0)


def test_a_removed_entry_that_could_have_expired_departs_once() -> None:
    queue = Queue()
    consumer = subscribe(queue, stealable=True)
    publish(queue, "m", expires_at=5.0)
    queue.control.remove(take(queue, consumer))

    queue.expire(6.0)

    assert causes(queue) == {"killed": 1}
    assert queue.statistics.depth == 0


def test_the_marks_keep_the_most_there_has_been() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    publish(queue, "1", "2", size=5)
    publish(queue, "later", deliver_at=9.0, size=5)
    held = take(queue, consumer)
    queue.accept(held, consumer)
    drain(queue, consumer)

    statistics = queue.statistics
    assert (statistics.most_depth, statistics.most_depth_bytes, statistics.most_ready) == (3, 15, 2)


@pytest.mark.parametrize("come", ["promoted", "released", "redriven", "unheld"])
def test_the_mark_of_ready_entries_rises_with_those_that_become_ready(come: str) -> None:
    queue = Queue(rules=Rules(hold=come == "unheld"))
    consumer = subscribe(queue)
    [first] = publish(queue, "1", deliver_at=1.0 if come in ("promoted", "unheld") else None)
    if come == "redriven":
        die(queue)
    if come == "released":
        take(queue, consumer)
    publish(queue, "2")
    assert queue.statistics.most_ready == 1

    queue.keep_house(1.0)
    queue.control.redrive(first)
    queue.release(first, consumer)

    assert queue.statistics.most_ready == 2


def test_a_reset_counts_from_zero_and_keeps_what_is_here() -> None:
    queue = Queue()
    consumer = subscribe(queue)
    publish(queue, "1", "2", "3", size=5)
    queue.accept(take(queue, consumer), consumer)
    held = take(queue, consumer)

    queue.reset_statistics()

    statistics = queue.statistics
    assert (statistics.enqueued, statistics.accepted, statistics.depth, statistics.depth_bytes) == (0, 0, 2, 10)
    assert (statistics.most_depth, statistics.most_depth_bytes, statistics.most_ready) == (2, 10, 1)
    queue.accept(held, consumer)
    assert (statistics.accepted, statistics.depth, statistics.depth_bytes) == (1, 1, 5)
