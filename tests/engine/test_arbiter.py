"""Which session may have which ready message. For the stores, see tests/stores/test_rules_properties.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions.arbiter import (
    MOST_AT_A_TIME,
    Award,
    Rival,
    Situation,
    Subscription,
    award,
    rivals_of,
    situation_of,
)
from django_mq.engine.options import QueueOptions

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


def names(items: str, situation: Situation, credit: int = 9) -> str:
    """The names of what is awarded to ME; an item is a name and a group, with ``!`` a suspect."""
    given = [Item(name, group, suspect=mark == "!") for name, group, mark in zip(*[iter(items)] * 3, strict=True)]
    return "".join(item.name for item in award(given, ME, credit, situation).chosen)


def test_a_session_that_runs_a_group_in_order_gets_more_of_it_once_every_group_has_begun() -> None:
    line = "1a 2a 3b 4a 5c 6b "
    one_each, several = Situation(grouped=True), Situation(grouped=True, in_order=True)

    assert names(line, one_each) == "135"
    assert names(line, several) == "123456"
    assert [names(line, several, credit) for credit in (1, 2, 3, 4, 5)] == ["1", "13", "135", "1235", "12345"]


def test_a_group_that_the_session_runs_goes_on_behind_groups_that_can_begin() -> None:
    running = Situation(grouped=True, in_order=True, running=frozenset("a"))

    assert [names("1a 2a 3b 4b ", running, credit) for credit in (1, 2, 3)] == ["3", "13", "123"]


def test_nothing_overtakes_a_suspect_or_a_locked_message_of_its_group() -> None:
    situation = Situation(grouped=True, in_order=True, running=frozenset("a"))
    items = [Item("1", "a"), Item("2", "a"), Item("3", "a"), Item("4", "b"), Item("5", "b")]
    found = Award[Item](ME, 9, situation)

    found.consider(items, lambda item: item.name in {"2", "4"})

    assert "".join(item.name for item in found.chosen) == "1"
    assert names("1a 2a!3a 4b!5b ", situation) == "14"


def test_messages_behind_others_of_their_group_count_in_flight_and_need_its_owner() -> None:
    line = "1a 2a 3b 4a "

    assert names(line, Situation(grouped=True, in_order=True, in_flight=3)) == "123"
    assert names(line, Situation(slots=0, grouped=True, in_order=True)) == ""
    items = [Item("1", "a", ME), Item("2", "a", BETTER), Item("3", "a", ME)]
    assigned = Situation(grouped=True, assigned=True, in_order=True)
    assert [item.name for item in award(items, ME, 9, assigned).chosen] == ["1"]


def test_the_session_of_each_claimed_message_decides_whether_its_group_waits() -> None:
    keeping = [("a", ME), ("a", ME), ("b", BETTER), ("c", None), ("d", ME), ("d", None)]
    queue = QueueOptions(grouping="shared")

    mine = situation_of(queue, ME, in_order=True, keeping=keeping)
    other = situation_of(queue, ME, keeping=keeping)

    assert (mine.running, mine.waiting) == (frozenset("a"), frozenset("bcd"))
    assert (other.running, other.waiting) == (frozenset(), frozenset("abcd"))
