"""Moves by an operator, and what happens after a queue's end."""

from threading import Thread

import pytest

from django_mq.engine.decisions.dead_letters import ORIGIN_QUEUE
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import Fate
from django_mq.errors import QueueFull
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import names, publish, subscribe


@pytest.mark.parametrize("policy", [Overflow.RING, Overflow.DROP, Overflow.FLOW, Overflow.REJECT])
def test_a_move_that_does_not_fit_is_refused_and_changes_nothing(policy: Overflow) -> None:
    broker = Broker()
    queue, full = broker.declare("q"), broker.declare("full", Rules(overflow=policy, limits=Limits(1)))
    publish(full, "old")
    (entry,) = publish(queue, "new")
    with pytest.raises(QueueFull):
        queue.move(entry, full, 1.0)
    assert (names(queue.entries()), names(full.entries()), full.flow_stopped) == (["new"], ["old"], False)


def test_limits_that_are_only_watched_keep_no_move_out() -> None:
    broker = Broker()
    queue, full = broker.declare("q"), broker.declare("full", Rules(limits=Limits(0)))
    (entry,) = publish(queue, "m")
    assert queue.move(entry, full, 1.0)
    assert names(full.entries()) == ["m"]


def test_an_entry_of_another_queue_is_not_copied_by_a_move() -> None:
    broker = Broker()
    queue, other, target = (broker.declare(name) for name in ("q", "other", "target"))
    (entry,) = publish(other, "m")
    assert not queue.move(entry, target, 1.0)
    assert (names(other.entries()), target.entries()) == (["m"], [])


@pytest.mark.parametrize("give_back", ["release", "fail", "decline", "reject"])
def test_what_is_given_back_to_a_deleted_queue_becomes_a_dead_letter(give_back: str) -> None:
    broker = Broker()
    queue, dead = broker.declare("q", Rules(dead_letter_queue="dead")), broker.declare("dead")
    consumer = subscribe(queue)
    publish(queue, "m")
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    broker.delete("q", 1.0)
    assert getattr(queue, give_back)(entry, consumer) is Fate.DEAD_LETTERED
    assert (queue.entries(), names(dead.entries())) == ([], ["m"])


@pytest.mark.parametrize("give_back", ["release", "fail", "reject"])
def test_a_deleted_queue_keeps_nothing_aside(give_back: str) -> None:
    broker = Broker()
    queue = broker.declare("q", Rules(keep_dead=True))
    consumer = subscribe(queue)
    publish(queue, "m")
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    broker.delete("q", 1.0)
    assert getattr(queue, give_back)(entry, consumer) is Fate.DISCARDED
    assert (queue.entries(), queue.statistics.depth) == ([], 0)


def test_what_expired_while_it_was_held_is_gone_when_it_is_given_back() -> None:
    queue = Broker().declare("q")
    consumer = subscribe(queue)
    publish(queue, "m", expires_at=5.0)
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    queue.keep_house(5.0)
    assert names(queue.entries()) == ["m"]
    assert queue.release(entry, consumer) is Fate.DISCARDED
    assert (queue.entries(), queue.statistics.expired) == ([], 1)


def test_two_queues_that_move_towards_each_other_do_not_wait_for_ever() -> None:
    here, there = Queue("here"), Queue("there")

    def shuttle(source: Queue, target: Queue) -> None:
        for number in range(300):
            (entry,) = publish(source, f"{source.name} {number}")
            source.move(entry, target, 0.0)

    threads = [Thread(target=shuttle, args=pair, daemon=True) for pair in ((here, there), (there, here))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()

    assert len(here.entries()) == len(there.entries()) == 300


def test_queues_that_redrive_towards_each_other_do_not_wait_for_each_other() -> None:
    """One lock of two, held while the other is awaited, would be a deadlock."""
    free: list[bool] = []

    def resolve(name: str) -> Queue:
        def look() -> None:
            free.append(here.lock.acquire(blocking=False))
            if free[-1]:
                here.lock.release()

        other = Thread(target=look)
        other.start()
        other.join()
        return {"here": here, "there": there}[name]

    here, there = Queue("here", resolve=resolve), Queue("there", resolve=resolve)
    publish(here, "m", headers={ORIGIN_QUEUE: "there"})

    assert here.redrive_all(1.0) == 1

    assert (names(there.entries()), free) == (["m"], [True])
