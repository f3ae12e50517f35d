from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import LastValueList
from tests.engine.builders import message
from tests.inprocess.builders import names


def keyed(arrival: int, key: object = "x", **place: Any) -> Entry:
    headers = {} if key is None else {"k": key}
    return Entry(message(f"m{arrival}", headers=headers), arrival=arrival, **place)


@pytest.fixture
def entries() -> LastValueList:
    return LastValueList("k")


def test_a_new_value_replaces_the_old_one_and_stands_at_the_tail(entries: LastValueList) -> None:
    old, other = keyed(1), keyed(2, "y")
    entries.add(old)
    entries.add(other)

    assert entries.add(keyed(3)) is old

    assert (names(entries), len(entries)) == (["m2", "m3"], 2)


def test_entries_without_the_key_are_never_replaced(entries: LastValueList) -> None:
    assert [entries.add(keyed(arrival, None)) for arrival in (1, 2, 3)] == [None, None, None]

    assert names(entries) == ["m1", "m2", "m3"]


def test_a_held_value_is_named_as_well_when_a_later_one_outdoes_it(entries: LastValueList) -> None:
    held = keyed(1)
    entries.add(held)
    entries.remove(held)

    assert entries.add(keyed(2)) is held


def test_a_superseded_value_that_is_given_back_is_worthless(entries: LastValueList) -> None:
    held = keyed(1)
    entries.add(held)
    entries.remove(held)
    entries.add(keyed(2))

    assert entries.add(held) is held

    assert names(entries) == ["m2"]


def test_a_value_that_was_due_counts_from_when_it_came(entries: LastValueList) -> None:
    due, direct = keyed(1, place=-1), keyed(2)
    entries.add(direct)

    assert entries.add(due) is direct
    assert entries.add(keyed(3)) is due


def test_a_value_that_was_due_outdoes_the_older_one_that_is_given_back(entries: LastValueList) -> None:
    due, direct = keyed(1, place=-1), keyed(2)
    entries.add(direct)
    entries.remove(direct)
    direct.claim(Consumer("c"))
    entries.add(due)

    assert entries.add(direct) is direct

    assert names(entries) == ["m1"]


def test_a_value_that_was_due_long_ago_is_no_newer_when_it_is_given_back(entries: LastValueList) -> None:
    due, worker = keyed(1, place=-1), Consumer("c")
    entries.add(due)
    entries.remove(due)
    due.claim(worker)
    entries.add(keyed(2))

    assert entries.add(due) is due

    assert names(entries) == ["m2"]


def test_it_is_worthless_too_while_somebody_holds_the_later_value(entries: LastValueList) -> None:
    held, later = keyed(1), keyed(2)
    for each in (held, later):
        entries.add(each)
        entries.remove(each)

    assert entries.add(held) is held


def test_it_is_the_latest_again_once_the_later_value_is_gone(entries: LastValueList) -> None:
    held, later = keyed(1), keyed(2)
    for each in (held, later):
        entries.add(each)
        entries.remove(each)

    entries.forget(later)

    assert entries.add(held) is None
    assert names(entries) == ["m1"]


def test_the_latest_value_survives_being_given_back(entries: LastValueList) -> None:
    latest = keyed(1)
    entries.add(latest)
    entries.remove(latest)

    assert entries.add(latest) is None
    assert names(entries) == ["m1"]


def test_forgetting_an_older_value_does_not_unseat_the_latest(entries: LastValueList) -> None:
    old, latest, held = keyed(2), keyed(3), keyed(1)
    for each in (old, latest):
        entries.add(each)

    entries.forget(old)

    assert entries.add(held) is held


def test_of_two_values_the_later_arrival_wins_in_whatever_order_they_come(entries: LastValueList) -> None:
    late = keyed(2)
    entries.add(late)

    assert entries.add(early := keyed(1)) is early
    assert list(entries) == [late]


def test_a_key_counts_by_its_text(entries: LastValueList) -> None:
    number, flag = keyed(1, 1), keyed(2, True)
    entries.add(number)
    entries.add(flag)

    assert entries.add(keyed(3, "1")) is number
    assert names(entries) == ["m2", "m3"]


def test_a_key_that_is_no_scalar_is_no_key(entries: LastValueList) -> None:
    entries.add(keyed(1, ["x"]))

    assert entries.add(keyed(2, ["x"])) is None


def test_values_stand_by_level_then_by_arrival() -> None:
    entries = LastValueList("k")
    for each in (keyed(1, "x", level=1), keyed(2, "y", level=9), keyed(3, "z", level=1)):
        entries.add(each)
    low_first = names(entries.least_significant())

    entries.add(keyed(4, "x", level=9))

    assert names(entries) == ["m2", "m4", "m3"]
    assert names(entries.heads()) == ["m2", "m3"]
    assert low_first == ["m1", "m3", "m2"]


KEYS = st.sampled_from(["x", "y", None])


@given(st.lists(st.tuples(st.sampled_from(["new", "take", "give back", "settle"]), KEYS, st.integers(0, 9))))
def test_ready_values_are_the_latest_of_their_key_and_nothing_is_lost(
    steps: list[tuple[str, str | None, int]],
) -> None:
    entries, alive, held = LastValueList("k"), set[Entry](), list[Entry]()

    for arrival, (step, key, pick) in enumerate(steps):
        if step == "new":
            returned = keyed(arrival, key)
            alive.add(returned)
        elif step == "take":
            if (head := entries.head()) is not None:
                entries.remove(head)
                held.append(head)
            continue
        elif not held:
            continue
        else:
            returned = held.pop(pick % len(held))
            if step == "settle":
                alive.remove(returned)
                entries.forget(returned)
                continue
        if (leaving := entries.add(returned)) is not None and leaving not in held:
            alive.remove(leaving)
            entries.forget(leaving)

        assert alive == set(held) | set(entries)
        for each in entries:
            rivals = [other for other in alive if other.message.headers == each.message.headers]
            assert not each.message.headers or each is max(rivals, key=lambda rival: rival.arrival)

    assert {latest for latest, _ in entries._latest.values()} <= alive
