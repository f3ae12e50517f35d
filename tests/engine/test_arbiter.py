"""Which session may have which ready message. For the stores, see tests/stores/test_rules_properties.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions.arbiter import MOST_AT_A_TIME, Rival, Situation, Subscription, award, rivals_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ME, BETTER, BEST = 1, 2, 3


class Item(NamedTuple):
    name: str
    group: str | None = None
    owner: int | None = None
    suspect: bool = False


def told(session: int, priority: int, credit: int = 5, **given: int) -> Subscription:
    """A consumer that goes on, and holds nothing unless given."""
    values = {"used": 0, "stopping": False, "held": 0} | given
    return Subscription(session=session, priority=priority, credit=credit, **values)  # type: ignore[arg-type]


def test_rivals_are_those_of_higher_priority_with_the_credit_they_have_left() -> None:
    given = [
        told(ME, 2),
        told(4, 1),
        told(5, 2),
        told(BETTER, 3, credit=5, held=2),
        told(BEST, 9, credit=2),
        told(BEST, 5, credit=4, used=3),
        told(BEST, 1, credit=50),
        told(6, 9, stopping=True),
        told(7, 4, credit=0, held=40),
        told(8, 3, credit=1, held=3),
    ]

    assert rivals_of(ME, given) == [
        Rival(BEST, 9, 3),
        Rival(7, 4, MOST_AT_A_TIME),
        Rival(BETTER, 3, 3),
        Rival(8, 3, 0),
    ]


def test_a_session_that_says_nothing_of_its_consumers_has_priority_zero() -> None:
    assert rivals_of(ME, [told(BETTER, 1), told(BEST, 0)]) == [Rival(BETTER, 1, 5)]


def test_what_a_rival_takes_in_thought_takes_its_slot_and_counts_in_flight() -> None:
    situation = Situation(
        slots=2, in_slots=frozenset({ME}), in_flight=3, rivals=[Rival(BETTER, 1, 1), Rival(BEST, 1, 9)]
    )

    found = award(map(Item, "abcdef"), ME, 9, situation)

    assert ([item.name for item in found.chosen], found.left) == (["b", "c"], True)


def test_a_rival_takes_no_message_of_a_group_that_is_not_its_own() -> None:
    items = [Item("a", "x", ME), Item("b", "y", BEST), Item("c", "z"), Item("d", "x", ME), Item("e")]
    situation = Situation(grouped=True, assigned=True, rivals=[Rival(BETTER, 1, 1)])

    found = award(items, ME, 9, situation)

    assert [item.name for item in found.chosen] == ["a", "e"]


def test_a_rival_without_a_free_slot_takes_no_suspect() -> None:
    items = [Item("a", suspect=True), Item("b")]
    full, free = (rivals_of(ME, [told(BETTER, 1, full=full)]) for full in (True, False))

    assert [item.name for item in award(items, ME, 9, Situation(rivals=full)).chosen] == ["a"]
    assert award(items, ME, 9, Situation(rivals=free)).chosen == []


def test_no_more_candidates_are_read_than_decide() -> None:
    read: list[str] = []

    def items() -> Iterator[Item]:
        for name in "abcdef":
            read.append(name)
            yield Item(name)

    assert award(items(), ME, 2, Situation(rivals=[Rival(BETTER, 1, 1)])).left
    assert read == ["a", "b", "c"]
    assert award(items(), ME, 2, Situation(slots=1, in_slots=frozenset({BETTER}))).chosen == []
    assert read == ["a", "b", "c"]
