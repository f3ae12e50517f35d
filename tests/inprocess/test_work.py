"""Publications and settlements that take effect together or not at all."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import State
from django_mq.errors import DuplicateMessage, IllegalMove, QueueFull
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, names, publish, subscribe


def test_nothing_stands_in_a_queue_before_the_commit() -> None:
    broker = Broker()
    queue, unit = broker.declare("q"), broker.begin()
    assert unit.publish(queue, message("a"))
    assert unit.publish(queue, message("due", deliver_at=5))
    assert queue.counts()[State.READY] == 0

    unit.commit(5.0)

    assert names(queue.browse()) == ["due", "a"]


def test_a_unit_that_is_rolled_back_leaves_nothing_behind() -> None:
    broker = Broker()
    queue, unit = broker.declare("q", Rules(limits=Limits(1), overflow=Overflow.REJECT)), broker.begin()
    unit.publish(queue, message("a", duplicate_id="x"))

    unit.rollback(0.0)

    assert queue.statistics.enqueued == 0
    publish(queue, "b", duplicate_id="x")
    with pytest.raises(IllegalMove, match="rolled back"):
        unit.commit(0.0)


def test_what_was_settled_in_a_unit_that_is_rolled_back_has_failed() -> None:
    broker = Broker()
    queue, unit = broker.declare("q", Rules(max_attempts=2, keep_dead=False)), broker.begin()
    publish(queue, "a", "b")
    worker = subscribe(queue, messages=1)
    for _ in range(2):
        drain(queue, worker)
        unit = broker.begin()
        [held] = worker.unsettled
        assert unit.accept(queue, held, worker)
        assert not unit.accept(queue, held, worker)
        unit.rollback(0.0)

    assert names(queue.browse()) == ["b"]
    assert queue.statistics.killed == 1


def test_a_duplicate_spoils_the_unit() -> None:
    broker = Broker()
    queue, unit = broker.declare("q"), broker.begin()
    unit.publish(queue, message("a", duplicate_id="x"))
    with pytest.raises(DuplicateMessage):
        unit.publish(queue, message("b", duplicate_id="x"))

    with pytest.raises(DuplicateMessage):
        unit.commit(0.0)

    assert queue.statistics.enqueued == 0


def test_open_units_take_room() -> None:
    broker = Broker()
    queue = broker.declare("q", Rules(limits=Limits(1), overflow=Overflow.REJECT))
    first, second = broker.begin(), broker.begin()
    first.publish(queue, message("a"))

    with pytest.raises(QueueFull):
        second.publish(queue, message("b"))
    first.commit(0.0)

    assert names(queue.browse()) == ["a"]


def test_what_was_admitted_comes_though_the_limit_was_lowered_meanwhile() -> None:
    broker = Broker()
    queue, unit = broker.declare("q", Rules(limits=Limits(2), overflow=Overflow.REJECT)), broker.begin()
    unit.publish(queue, message("a"))
    unit.publish(queue, message("b"))
    queue.control.change(Rules(limits=Limits(1), overflow=Overflow.REJECT))

    unit.commit(0.0)

    assert names(queue.browse()) == ["a", "b"]


@pytest.mark.parametrize(
    "rules",
    [Rules(limits=Limits(0), overflow=Overflow.DROP), Rules(purge_on_no_consumers=True)],
    ids=["full", "deserted"],
)
def test_what_a_queue_drops_does_not_come_with_the_commit_either(rules: Rules) -> None:
    broker = Broker()
    queue, unit = broker.declare("q", rules), broker.begin()

    assert not unit.publish(queue, message("a", duplicate_id="x"))
    subscribe(queue)
    unit.commit(0.0)

    assert queue.statistics.enqueued == 0
    assert "x" not in queue.duplicate_ids


def test_what_is_settled_in_a_unit_stays_with_it_when_its_consumer_leaves() -> None:
    broker = Broker()
    queue, unit = broker.declare("q"), broker.begin()
    publish(queue, "a", "b", "c")
    worker = subscribe(queue, messages=2)
    drain(queue, worker)
    settled, other = worker.unsettled
    unit.accept(queue, settled, worker)

    assert queue.remove_consumer(worker) == [other]
    assert names(queue.browse()) == ["b", "c"]
    unit.commit(0.0)

    assert queue.statistics.accepted == 1
    assert queue.counts()[State.CLAIMED] == 0


def test_a_failed_consumer_has_attempted_what_it_held_and_nothing_waits_for_it() -> None:
    broker = Broker()
    queue = broker.declare("q", Rules(max_attempts=2, dead_letter_queue="dead", backoff=Backoff(60)))
    dead = broker.declare("dead")
    publish(queue, "a")
    for expected in (["a"], []):
        worker = subscribe(queue)
        drain(queue, worker)
        queue.remove_consumer(worker, failed=True, now=7.0)
        assert names(queue.browse()) == expected

    assert names(dead.browse()) == ["a"]


def test_what_comes_back_to_a_queue_that_nobody_consumes_is_dropped() -> None:
    broker = Broker()
    queue, unit = broker.declare("q", Rules(purge_on_no_consumers=True)), broker.begin()
    worker = subscribe(queue)
    publish(queue, "a")
    drain(queue, worker)
    [held] = worker.unsettled
    unit.accept(queue, held, worker)
    queue.remove_consumer(worker)

    unit.rollback(0.0)

    assert names(queue.entries()) == []
    assert queue.statistics.killed == 1
