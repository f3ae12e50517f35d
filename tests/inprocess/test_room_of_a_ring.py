"""A ring of ready messages keeps the newest (Artemis)."""

from __future__ import annotations

from dataclasses import replace

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import drain, names, publish, subscribe


def ring(size: int) -> Rules:
    return Rules(overflow=Overflow.RING, limits=Limits(size), ring_of_ready=True)


def test_a_newcomer_drives_out_the_oldest() -> None:
    queue = Queue(rules=ring(2))
    publish(queue, "a", "b", "c")

    assert names(queue.browse()) == ["b", "c"]
    assert queue.statistics.replaced == 1


def test_what_is_claimed_or_scheduled_takes_no_room() -> None:
    queue = Queue(rules=ring(2))
    publish(queue, "a")
    drain(queue, subscribe(queue, messages=1))
    publish(queue, "later", deliver_at=5)
    publish(queue, "b", "c")

    assert names(queue.browse()) == ["b", "c"]
    assert queue.statistics.replaced == 0


def test_a_smaller_limit_trims_nothing_and_a_newcomer_drives_out_one() -> None:
    queue = Queue(rules=ring(3))
    publish(queue, "a", "b", "c")
    queue.control.change(ring(1))
    publish(queue, "later", deliver_at=5)
    assert names(queue.browse()) == ["a", "b", "c"]

    publish(queue, "d")

    assert names(queue.browse()) == ["b", "c", "d"]


def test_a_message_of_a_higher_level_is_not_kept_at_the_cost_of_a_newer_one() -> None:
    queue = Queue(rules=ring(2))
    publish(queue, "high", priority=9)
    publish(queue, "low", priority=0)
    publish(queue, "newest", priority=0)

    assert names(queue.browse()) == ["low", "newest"]


def test_what_comes_due_is_kept() -> None:
    queue = Queue(rules=ring(2))
    publish(queue, "due", deliver_at=1)
    publish(queue, "a", "b")

    queue.promote(1.0)

    assert names(queue.browse()) == ["due", "b"]


def test_of_several_that_come_due_together_the_latest_stay() -> None:
    queue = Queue(rules=ring(2))
    for name, due in (("s3", 3), ("s1", 1), ("s2", 2)):
        publish(queue, name, deliver_at=due)

    queue.promote(3.0)

    assert names(queue.browse()) == ["s2", "s3"]


def test_what_is_delivered_before_its_time_needs_room_too() -> None:
    queue = Queue(rules=ring(1))
    (later,) = publish(queue, "later", deliver_at=5)
    publish(queue, "a")

    queue.control.deliver_now(later)

    assert names(queue.browse()) == ["later"]


def test_of_a_batch_that_is_given_back_the_newest_stay() -> None:
    queue = Queue(rules=ring(2))
    publish(queue, "a", "b")
    worker = subscribe(queue, messages=2)
    drain(queue, worker)
    publish(queue, "c")

    for entry in list(worker.unsettled):
        queue.release(entry, worker)

    assert names(queue.browse()) == ["b", "c"]


def test_a_ring_of_everything_is_never_left_too_full() -> None:
    rules = Rules(overflow=Overflow.RING, limits=Limits(3))
    queue = Queue(rules=rules)
    publish(queue, "a", "b", "c")

    queue.control.change(replace(rules, limits=Limits(1)))

    assert names(queue.browse()) == ["c"]
