"""Claiming from several queues: by message priority, queues of equal heads taking turns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.stores.records import ClaimRequest
from tests.stores.builders import claim, declare, ids, look, open_session, pass_time, publish

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_the_more_urgent_message_comes_first_whatever_its_queue(store: Store, session: int) -> None:
    declare(store, "a")
    declare(store, "b")
    published = {name: [publish(store, name, priority=priority) for priority in order]
                 for name, order in {"a": (2, 8), "b": (5, 9)}.items()}  # fmt: skip

    claimed = claim(store, session, "a", "b")

    assert ids(claimed) == [published["b"][1], published["a"][1], published["b"][0], published["a"][0]]


def test_queues_of_equal_heads_take_turns(store: Store, session: int) -> None:
    for name in ("a", "b"):
        declare(store, name)
        for _ in range(3):
            publish(store, name)

    claimed = claim(store, session, "b", "a", credit=5)

    assert [message.queue_name for message in claimed] == ["b", "a", "b", "a", "b"]


def test_a_listed_claim_follows_the_list_strictly(store: Store, session: int) -> None:
    declare(store, "a")
    declare(store, "b")
    publish(store, "a", priority=9)
    publish(store, "b", priority=0)
    publish(store, "b", priority=1)

    claimed = claim(store, session, "b", "a", listed=True)

    assert [(message.queue_name, message.priority) for message in claimed] == [("b", 1), ("b", 0), ("a", 9)]


def test_no_queue_s_own_order_is_broken(store: Store, session: int) -> None:
    declare(store, "line", kind="fifo")
    declare(store, "heap")
    first, second = publish(store, "line", priority=0), publish(store, "line", priority=9)
    other = publish(store, "heap", priority=5)

    claimed = claim(store, session, "line", "heap")

    assert ids(claimed) == [other, first, second]


def test_queues_with_different_levels_compare_by_message_priority(store: Store, session: int) -> None:
    declare(store, "coarse", levels=2)
    declare(store, "fine")
    high, low = publish(store, "coarse", priority=6), publish(store, "coarse", priority=3)
    middle = publish(store, "fine", priority=5)

    assert ids(claim(store, session, "coarse", "fine")) == [high, middle, low]


def test_the_credit_holds_for_all_queues_together(store: Store, session: int) -> None:
    for name in ("a", "b"):
        declare(store, name)
        for _ in range(4):
            publish(store, name)

    first = look(store, session, "a", "b", credit=5)
    second = look(store, session, "a", "b", credit=5)

    assert (len(first.claimed), first.more, len(second.claimed), second.more) == (5, True, 3, False)


@pytest.mark.parametrize("options", [{}, {"max_in_flight": 100}], ids=["plain", "constrained"])
@pytest.mark.parametrize("promote", [True, False])
def test_each_queue_gives_as_much_as_its_limit_allows(
    store: Store, session: int, options: dict[str, Any], promote: bool
) -> None:
    for name in ("a", "b", "c"):
        declare(store, name, **(options if name == "a" else {}))
    for name, number in (("a", 6), ("b", 6), ("c", 1)):
        for _ in range(number):
            publish(store, name)

    def brought(credit: int, *limits: int) -> tuple[dict[str, int], bool]:
        queues = ("a", "b", "c")[: len(limits)]
        request = ClaimRequest(
            queues=queues, credit=credit, limits=dict(zip(queues, limits, strict=True)), promote=promote
        )
        result = store.claims.settle_and_claim(session, [], request)
        return Counter(message.queue_name for message in result.claimed), result.more

    assert brought(8, 1, 3, 4) == ({"a": 1, "b": 3, "c": 1}, True)
    # The queue that is first by rank does not use up what the others may have of a shared credit.
    assert brought(3, 1, 3) == ({"a": 1, "b": 2}, True)
    assert brought(100, 5, 100) == ({"a": 4, "b": 1}, False)


def test_a_paused_queue_among_others_delivers_nothing(store: Store, session: int) -> None:
    for name in ("a", "b"):
        declare(store, name)
        publish(store, name)
    store.queues.set_paused("a", paused=True)

    assert [message.queue_name for message in claim(store, session, "a", "b")] == ["b"]


def test_due_messages_of_every_queue_are_taken(store: Store, session: int) -> None:
    for name in ("a", "b"):
        declare(store, name)
        publish(store, name, delay_seconds=10)
    pass_time(store, 11)

    assert len(claim(store, session, "a", "b")) == 2


def test_the_next_due_is_the_earliest_of_all_queues(store: Store, session: int) -> None:
    declare(store, "a")
    declare(store, "b")
    publish(store, "a", delay_seconds=500)
    publish(store, "b", delay_seconds=100)

    due = look(store, session, "a", "b").next_due_seconds

    assert due is not None
    assert 90 < due <= 100


def test_only_the_named_queues_are_claimed_from(store: Store, session: int) -> None:
    for name in ("a", "b", "c"):
        declare(store, name)
        publish(store, name)

    assert {message.queue_name for message in claim(store, session, "a", "c", "nowhere")} == {"a", "c"}


def test_two_sessions_share_the_work_of_several_queues(store: Store, session: int) -> None:
    other = open_session(store, "other")
    for name in ("a", "b"):
        declare(store, name)
        for _ in range(3):
            publish(store, name)

    mine, theirs = claim(store, session, "a", "b", credit=3), claim(store, other, "a", "b", credit=10)

    assert len(mine) == len(theirs) == 3
    assert not set(ids(mine)) & set(ids(theirs))


def test_a_credit_may_be_as_large_as_any(store: Store, session: int) -> None:
    for name in ("a", "b"):
        declare(store, name)
        publish(store, name)

    assert len(claim(store, session, "a", "b", credit=2**31 - 1)) == 2
