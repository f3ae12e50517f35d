"""The order of a claim from several queues."""

from __future__ import annotations

from django_mq.engine.decisions.claim import merged, next_batch


def test_heads_are_merged_by_the_least_priority_so_far_and_take_turns() -> None:
    assert merged([[(1, 4), (2, 9)], [(3, 4), (4, 4)]], listed=False) == [1, 3, 2, 4]
    assert merged([[(1, 4)], [(3, 9)]], listed=False) == [3, 1]
    assert merged([[(1, 4)], [(3, 9)]], listed=True) == [1, 3]


def test_a_batch_takes_of_each_queue_as_many_as_it_has_left() -> None:
    left = {"a": 1, "b": 2}
    assert next_batch([1, 2, 3, 4], 3, {1: "a", 2: "a", 3: "b", 4: "b"}, left) == [1, 3, 4]
    assert left == {"a": 0, "b": 0}
