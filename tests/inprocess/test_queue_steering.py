from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import State
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.entries.lists import FifoList
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.inprocess.builders import drain, names, publish, subscribe


def test_a_scheduled_entry_delivered_now_is_ready_in_the_place_of_its_time() -> None:
    queue = Queue()
    publish(queue, "ordinary")
    [_, sooner] = publish(queue, "later", "unmoved", deliver_at=9.0)

    assert queue.control.deliver_now(sooner)

    assert names(queue.browse()) == ["unmoved", "ordinary"]
    assert queue.due.next_due() == 9.0


def test_delivering_now_wakes_a_consumer() -> None:
    queue = Queue()
    woken: list[object] = []
    [held] = publish(queue, "m", deliver_at=9.0)
    consumer = subscribe(queue, wake=woken.append)
    queue.deliver(consumer, 0.0)

    queue.control.deliver_now(held)

    assert woken == [consumer]


def test_only_what_is_scheduled_here_can_be_delivered_now() -> None:
    queue, other = Queue(), Queue()
    [ready] = publish(queue, "ready")
    [elsewhere] = publish(other, "elsewhere", deliver_at=9.0)

    assert not queue.control.deliver_now(ready)
    assert not queue.control.deliver_now(elsewhere)


def test_a_release_until_a_time_keeps_its_place_and_counts_nothing() -> None:
    queue = Queue(rules=Rules(due_first=False))
    consumer = subscribe(queue)
    publish(queue, "first", "second")
    held = queue.deliver(consumer, 0.0)
    assert held is not None

    queue.release(held, consumer, retry_at=5.0)

    assert (held.state, held.attempts, drain(queue, consumer, 4.0)) == (State.SCHEDULED, 0, ["second"])
    assert drain(queue, consumer, 5.0) == ["first"]


def test_the_heads_are_the_first_entries_of_the_levels_that_have_any() -> None:
    queue = Queue()
    for name, priority in [("low", 1), ("high", 8), ("low again", 1), ("high again", 8)]:
        publish(queue, name, priority=priority)
    publish(queue, "due", priority=1, deliver_at=1.0, now=2.0)

    assert names(list(queue.contents.dispatch.ready.heads())) == ["high", "due"]


def test_a_queue_of_one_level_has_one_head_and_an_empty_one_none() -> None:
    queue = Queue(rules=Rules(levels=1), entries=FifoList())

    assert list(queue.contents.dispatch.ready.heads()) == []
    publish(queue, "first", "second")

    assert names(list(queue.contents.dispatch.ready.heads())) == ["first"]


def test_a_message_of_another_priority_has_been_attempted_as_often_unless_it_is_another_message() -> None:
    queue = Queue()
    publish(queue, "m")
    consumer = subscribe(queue, messages=1)
    failed = queue.deliver(consumer, 0.0)
    assert failed is not None
    queue.fail(failed, consumer)

    changed = queue.control.change_priority(failed, 9, 0.0)
    assert changed is not None
    assert (changed.attempts, changed.redelivered) == (1, True)
    anew = queue.control.change_priority(changed, 1, 0.0, new_id="n")
    assert anew is not None
    assert (anew.attempts, anew.redelivered) == (0, False)


def test_a_dead_letter_that_its_origin_refuses_stays_where_it_is() -> None:
    broker = Broker()
    full = broker.declare("full", Rules(dead_letter_queue="dead", limits=Limits(1), overflow=Overflow.REJECT))
    dead = broker.declare("dead")
    publish(full, "a")
    consumer = subscribe(full)
    rejected = full.deliver(consumer, 0.0)
    assert rejected is not None
    full.reject(rejected, consumer)
    publish(full, "b")

    assert dead.redrive_all(0.0) == 0
    assert names(dead.browse()) == ["a"]
    assert drain(full, consumer) == ["b"]
