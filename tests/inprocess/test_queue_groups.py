"""Groups of a queue, as its consumers and its operators see them."""

from __future__ import annotations

from functools import partial

from django_mq.inprocess.consumers.groups import AssignedGroups, SoleReceiver
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import SHARED_TABLE, Rules
from tests.inprocess.builders import drain, publish, subscribe


def test_a_group_is_owned_by_itself_or_with_its_bucket() -> None:
    queue = Queue(rules=Rules(groups=partial(AssignedGroups, "g", 1)))
    worker = subscribe(queue)
    publish(queue, "a", headers={"g": "x"})

    assert queue.subscribers.group_owner("x") is None
    drain(queue, worker)
    assert queue.subscribers.group_owner("x") is queue.subscribers.group_owner("another") is worker
    assert Queue().subscribers.group_owner("x") is None


def test_what_was_refused_to_a_consumer_is_its_own_again_when_the_queue_is_exclusive_no_more() -> None:
    queue = Queue(rules=Rules(groups=SoleReceiver))
    first, second = subscribe(queue, "first", 1), subscribe(queue, "second")
    publish(queue, "a", "b", "c")
    assert drain(queue, first) == ["a"]
    assert drain(queue, second) == []

    queue.control.change(Rules())

    assert drain(queue, second) == ["b", "c"]


def test_other_rules_leave_groups_gates_and_owners_as_they_are() -> None:
    groups = partial(AssignedGroups, "g")
    queue = Queue(rules=Rules(groups=groups, consumers_before=2))
    first, second = subscribe(queue, "first"), subscribe(queue, "second")
    publish(queue, "a", headers={"g": "x"})
    assert drain(queue, first) == ["a"]
    queue.remove_consumer(second)

    queue.control.change(Rules(groups=groups, consumers_before=2, max_attempts=3))

    assert queue.subscribers.group_owner("x") is first
    publish(queue, "b", headers={"g": "x"})
    assert drain(queue, first) == ["b"]


def test_consumers_of_a_shared_table_keep_their_slots_and_groups_until_they_leave() -> None:
    queue = Queue(rules=Rules(groups=AssignedGroups, max_live=2), policy=SHARED_TABLE)
    consumers = [subscribe(queue, name) for name in ("first", "second", "third")]
    publish(queue, "a", "b", group="x")
    for entry, consumer in zip(list(queue.browse()), consumers, strict=False):
        queue.deliveries.take(entry, consumer)
    assert queue.subscribers.live() == set(consumers[:2])

    for rules in (Rules(), Rules(groups=AssignedGroups, max_live=1)):
        queue.control.change(rules)

    assert queue.subscribers.group_owner("x") is consumers[0]
    assert [queue.subscribers.take_slot(consumer) for consumer in consumers] == [True, True, False]
    queue.remove_consumer(consumers[0])
    assert (queue.subscribers.group_owner("x"), queue.subscribers.live()) == (None, {consumers[1]})
