"""Groups of a queue, as its consumers and its operators see them."""

from __future__ import annotations

from functools import partial

from django_mq.engine.groups.assigned import AssignedGroups
from django_mq.engine.queue import Queue
from django_mq.engine.rules import Rules
from tests.engine.builders import drain, publish, subscribe


def test_a_group_is_owned_by_itself_or_with_its_bucket() -> None:
    queue = Queue(rules=Rules(groups=partial(AssignedGroups, "g", 1)))
    worker = subscribe(queue)
    publish(queue, "a", headers={"g": "x"})

    assert queue.group_owner("x") is None
    drain(queue, worker)
    assert queue.group_owner("x") is queue.group_owner("another") is worker
    assert Queue().group_owner("x") is None
