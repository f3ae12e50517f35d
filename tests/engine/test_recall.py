"""Which prefetched messages a worker gives back."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from django_mq.engine.decisions.recall import FreeSlots, surplus
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions

given_back = partial(surplus, message_of=lambda item: Message(id=item, headers={"name": item}))


def test_the_last_messages_go_to_free_slots_elsewhere() -> None:
    assert given_back("abcd", "abcd", free_slots=0, elsewhere=[FreeSlots(1), FreeSlots(1)]) == ["d", "c"]


def test_a_worker_with_a_free_slot_keeps_everything() -> None:
    assert given_back("abcd", "abcd", free_slots=1, elsewhere=[FreeSlots(2)]) == []


def test_what_came_since_the_last_heartbeat_stays() -> None:
    assert given_back("abcd", "ab", free_slots=0, elsewhere=[FreeSlots(3)]) == ["b", "a"]


def test_without_a_free_slot_elsewhere_everything_stays() -> None:
    assert given_back("abcd", "abcd", free_slots=0, elsewhere=[]) == []


def test_a_free_slot_is_for_what_its_worker_wants() -> None:
    elsewhere = [FreeSlots(2, frozenset({"name = 'a'", "name = 'b'"})), FreeSlots(3, frozenset({"name = 'c'"}))]

    assert given_back("abcd", "abcd", free_slots=0, elsewhere=elsewhere) == ["c", "b", "a"]


@pytest.mark.parametrize("options", [{}, {"grouping": "shared"}], ids=str)
def test_any_session_may_begin_what_has_no_owner(options: dict[str, Any]) -> None:
    assert QueueOptions(**options).is_for_any


@pytest.mark.parametrize(
    "options",
    [
        {"grouping": "assigned"},
        {"grouping": "balanced"},
        {"grouping": "sole"},
        {"strict": True},
        {"exclusive": True},
        {"max_consumers": 2},
        {"max_in_flight": 5},
    ],
    ids=str,
)
def test_not_any_session_may_begin_what_a_rule_gives_to_some(options: dict[str, Any]) -> None:
    assert not QueueOptions(**options).is_for_any
