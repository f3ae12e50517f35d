import pytest

from django_mq.engine.states import State
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import drain, names, publish, subscribe


@pytest.fixture
def queue() -> Queue:
    return Queue(rules=Rules(hold=True))


def test_a_held_message_is_overtaken_and_then_stands_where_it_arrived(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "held", deliver_at=5.0)
    publish(queue, "second", "third")
    first = queue.deliver(consumer, 4.9)
    assert first is not None
    assert first.message.id == "second"

    queue.keep_house(5.0)

    assert names(queue.browse()) == ["held", "third"]


def test_a_held_message_is_in_line_and_counts_as_ready(queue: Queue) -> None:
    [held] = publish(queue, "held", deliver_at=5.0)

    assert (held.state, queue.counts()[State.READY], queue.scheduled()) == (State.HELD, 1, [])
    assert names(queue.browse()) == []


def test_a_consumer_notices_that_the_time_of_what_stands_before_it_has_passed(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "held", deliver_at=5.0)

    assert drain(queue, consumer, 4.9) == []
    other = subscribe(queue, "other")

    assert drain(queue, other, 5.0) == ["held"]


def test_a_consumer_that_has_passed_it_does_not_look_again_by_itself(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "held", deliver_at=5.0)
    publish(queue, "later")
    assert drain(queue, consumer, 1.0) == ["later"]

    assert drain(queue, consumer, 6.0) == []
    assert names(queue.due.unhold(6.0)) == ["held"]
    assert drain(queue, consumer, 6.0) == ["held"]


def test_housekeeping_is_due_at_the_time_of_the_next_held_message(queue: Queue) -> None:
    publish(queue, "later", deliver_at=9.0)
    publish(queue, "sooner", deliver_at=5.0)

    assert queue.next_time() == 5.0


def test_what_is_overdue_is_due_at_once(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "held", deliver_at=5.0)
    publish(queue, "ready")
    drain(queue, consumer, 1.0)
    drain(queue, consumer, 6.0)

    assert queue.next_time() == 0.0


def test_standing_ready_again_wakes_a_consumer(queue: Queue) -> None:
    woken: list[object] = []
    consumer = subscribe(queue, wake=woken.append)
    publish(queue, "held", deliver_at=5.0)
    assert woken == []

    queue.due.unhold(5.0)

    assert woken == [consumer]


def test_a_held_message_can_expire_be_removed_or_be_purged(queue: Queue) -> None:
    publish(queue, "expiring", deliver_at=9.0, expires_at=5.0)
    [removed] = publish(queue, "removed", deliver_at=9.0)
    publish(queue, "purged", deliver_at=9.0)

    assert names(queue.expire(5.0)) == ["expiring"]
    assert queue.control.remove(removed)
    assert names(queue.control.purge()) == ["purged"]
    assert (queue.entries(), queue.statistics.depth) == ([], 0)


def test_a_consumer_that_left_and_came_back_sees_what_stands_before_it(queue: Queue) -> None:
    consumer = subscribe(queue)
    publish(queue, "held", deliver_at=5.0)
    publish(queue, "ready")
    drain(queue, consumer, 1.0)
    queue.remove_consumer(consumer)
    queue.deliver(consumer, 1.0)  # no longer of this queue
    queue.add_consumer(consumer)

    assert drain(queue, consumer, 6.0) == ["held", "ready"]


def test_a_queue_that_holds_no_more_still_serves_what_it_held(queue: Queue) -> None:
    publish(queue, "held", deliver_at=5.0)
    queue.control.change(Rules())
    consumer = subscribe(queue)

    assert drain(queue, consumer, 4.0) == []
    queue.keep_house(5.0)

    assert drain(queue, consumer, 5.0) == ["held"]
