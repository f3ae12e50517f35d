import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import RUN_LENGTH, EntryList, FifoList, PriorityList
from tests.inprocess.builders import entry


@pytest.fixture(params=[FifoList, PriorityList])
def entries(request: pytest.FixtureRequest) -> EntryList:
    return request.param()


def arrivals(entries: EntryList) -> list[int]:
    return [each.arrival for each in entries]


def fill(entries: EntryList, *arrivals: int) -> dict[int, Entry]:
    added = {arrival: entry(arrival=arrival) for arrival in arrivals}
    for each in added.values():
        entries.add(each)
    return added


def test_an_empty_list_has_no_head(entries: EntryList) -> None:
    assert (entries.head(), len(entries), list(entries)) == (None, 0, [])


def test_entries_stand_in_order_of_arrival(entries: EntryList) -> None:
    fill(entries, 1, 2, 3)

    assert (arrivals(entries), len(entries)) == ([1, 2, 3], 3)


def test_what_was_taken_out_retakes_its_place(entries: EntryList) -> None:
    added = fill(entries, 1, 2, 3, 4)
    for arrival in (3, 1):
        entries.remove(added[arrival])

    for arrival in (3, 1):
        entries.add(added[arrival])

    assert arrivals(entries) == [1, 2, 3, 4]


def test_next_follows_an_entry_that_has_long_been_removed(entries: EntryList) -> None:
    added = fill(entries, 1, 2, 3)
    entries.remove(added[1])
    entries.remove(added[2])

    assert entries.next(added[1]) is added[3]


def test_next_sees_what_came_to_stand_between_meanwhile(entries: EntryList) -> None:
    added = fill(entries, 1, 2, 3)
    entries.remove(added[2])
    entries.remove(added[1])

    entries.add(added[2])

    assert entries.next(added[1]) is added[2]


def test_nothing_follows_the_last(entries: EntryList) -> None:
    assert entries.next(fill(entries, 1, 2)[2]) is None


def test_removing_a_stranger_changes_nothing(entries: EntryList) -> None:
    added = fill(entries, 1, 2)
    entries.remove(added[1])

    assert not entries.remove(added[1])
    assert not entries.remove(entry(arrival=2))
    assert arrivals(entries) == [2]


def test_a_due_entry_stands_before_all_that_have_no_place(entries: EntryList) -> None:
    fill(entries, 1, 2)
    due = entry(place=-1, arrival=3)

    entries.add(due)

    assert entries.head() is due


def test_order_holds_over_many_runs(entries: EntryList) -> None:
    numbers = list(range(5 * RUN_LENGTH))
    random.Random(7).shuffle(numbers)
    added = fill(entries, *numbers)

    for arrival in numbers[::2]:
        entries.remove(added[arrival])

    assert arrivals(entries) == sorted(numbers[1::2])
    assert len(entries) == len(numbers[1::2])


def test_higher_levels_stand_entirely_before_lower_ones() -> None:
    entries = PriorityList()
    for arrival, level in enumerate([0, 9, 4, 9, 0]):
        entries.add(entry(level=level, arrival=arrival))

    assert arrivals(entries) == [1, 3, 2, 0, 4]


def test_next_goes_on_from_one_level_to_the_one_below() -> None:
    entries = PriorityList()
    high, low = entry(level=9, arrival=2), entry(level=0, arrival=1)
    entries.add(high)
    entries.add(low)

    assert entries.next(high) is low
    assert entries.next(entry(level=5, arrival=0)) is low


def test_the_head_is_right_after_a_middle_level_was_emptied() -> None:
    entries = PriorityList()
    high, middle, low = (entry(level=level, arrival=level) for level in (9, 5, 1))
    for each in (low, middle, high):
        entries.add(each)

    entries.remove(middle)
    assert entries.head() is high
    entries.remove(high)
    assert entries.head() is low


PLACES = st.lists(st.tuples(st.integers(0, 9), st.integers(-2, 0)), max_size=60)


@given(PLACES, st.randoms(use_true_random=False))
def test_any_history_leaves_the_entries_in_order(places: list[tuple[int, int]], chance: random.Random) -> None:
    entries, model = PriorityList(), []

    for arrival, (level, place) in enumerate(places):
        each = entry(level=level, place=place, arrival=arrival)
        entries.add(each)
        model.append(each)
        if chance.random() < 0.4:
            entries.remove(model.pop(chance.randrange(len(model))))

        model.sort(key=lambda each: each.order)
        assert list(entries) == model
        assert entries.head() is (model[0] if model else None)
        assert [entries.next(each) for each in model[:-1]] == model[1:]
