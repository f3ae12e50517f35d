"""A binding's pattern and a routing key: AMQP's direct, topic and fanout."""

from __future__ import annotations

import pytest

from django_mq.engine.routing import matches, queues_matching


@pytest.mark.parametrize(
    ("pattern", "key", "taken"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.bc", False),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("*", "", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("#", "", True),
        ("#", "a", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "ab", False),
        ("#.c", "c", True),
        ("#.c", "a.b.c", True),
        ("#.c", "a.b.cd", False),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.b.b.c", True),
        ("a.#.c", "a.b", False),
        ("#.b.#", "b", True),
        ("#.b.#", "a.b.c", True),
        ("#.b.#", "a.c", False),
        ("*.#", "a", True),
        ("*.#", "", False),
        ("#.*", "a", True),
        ("#.#", "", True),
        ("#.#", "a.b", True),
        ("a+b", "a+b", True),
        ("a+b", "aab", False),
        ("a.b", "a\nb", False),
        ("", "", True),
    ],
)
def test_a_topic_pattern_takes_whole_words(pattern: str, key: str, taken: bool) -> None:
    assert matches("topic", pattern, key) is taken


def test_a_direct_pattern_is_taken_literally() -> None:
    assert matches("direct", "a.*", "a.*")
    assert not matches("direct", "a.*", "a.b")


def test_fanout_takes_everything() -> None:
    assert matches("fanout", "ignored", "anything")


def test_a_queue_with_several_bindings_that_match_is_named_once() -> None:
    bindings = [("topic", "#", "all"), ("topic", "*.error", "all"), ("direct", "b.info", "other")]

    assert queues_matching(bindings, "a.error") == ["all"]
