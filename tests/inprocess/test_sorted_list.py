from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import RUN_LENGTH, SortedList
from tests.engine.builders import message
from tests.inprocess.builders import names


def keyed(arrival: int, text: Any = None, **place: Any) -> Entry:
    headers = {} if text is None else {"s": text}
    return Entry(message(f"m{arrival}", headers=headers), arrival=arrival, **place)


def line(*texts: Any) -> tuple[SortedList, list[Entry]]:
    entries = SortedList("s")
    added = [keyed(arrival, text) for arrival, text in enumerate(texts, start=1)]
    for each in added:
        assert entries.add(each) is None
    return entries, added


def test_entries_stand_in_order_of_their_header() -> None:
    entries, _ = line("m", "c", "z", "a")

    assert names(entries) == ["m4", "m2", "m1", "m3"]


def test_equals_stand_by_arrival_and_those_without_the_header_come_first() -> None:
    entries, _ = line("b", None, "", "b", None)

    assert names(entries) == ["m2", "m5", "m3", "m1", "m4"]


def test_a_later_entry_may_become_the_head() -> None:
    entries, _ = line("m", "m", "z")

    entries.add(first := keyed(4, "a"))

    assert entries.head() is first


def test_numbers_are_compared_as_text() -> None:
    entries, _ = line(9, 10, 1.5, True)

    assert names(entries) == ["m3", "m2", "m1", "m4"]


def test_what_is_no_scalar_counts_as_no_header() -> None:
    entries, _ = line("a", ["a"], {"a": 1})

    assert names(entries) == ["m2", "m3", "m1"]


def test_texts_are_compared_by_code_points() -> None:
    entries, _ = line("\U0001f600", "\uffee", "Z", "a")

    assert names(entries) == ["m3", "m4", "m2", "m1"]


def test_levels_and_places_mean_nothing() -> None:
    entries = SortedList("s")
    for each in (keyed(1, "b", level=9), keyed(2, "a"), keyed(3, "a", level=5, place=-7)):
        entries.add(each)

    assert names(entries) == ["m2", "m3", "m1"]


def test_next_finds_the_way_from_an_entry_that_was_removed() -> None:
    entries, added = line("a", "b", "c")
    entries.remove(added[0])
    entries.remove(added[1])

    assert entries.next(added[0]) is added[2]


def test_what_was_taken_out_retakes_its_place() -> None:
    entries, added = line("b", "a", "b")
    entries.remove(added[0])

    entries.add(added[0])

    assert names(entries) == ["m2", "m1", "m3"]


def test_an_entry_taken_out_leaves_nothing_behind() -> None:
    entries, added = line("b", "a")

    for each in added:
        assert entries.remove(each)

    assert not entries.remove(added[0])
    assert (len(entries), entries._places) == (0, {})


def test_a_full_queue_gives_up_the_oldest_first_whatever_its_header() -> None:
    entries, added = line("b", "c", "a")
    assert names(entries.least_significant()) == ["m1", "m2", "m3"]

    entries.remove(added[0])
    entries.add(keyed(4, "a"))
    entries.add(added[0])

    assert names(entries.least_significant()) == ["m1", "m2", "m3", "m4"]


@given(st.lists(st.none() | st.text(max_size=3)), st.data())
def test_it_stands_as_a_stable_sort_would_have_it(texts: list[str | None], data: st.DataObject) -> None:
    entries, added = line(*texts)
    if added:
        for each in data.draw(st.lists(st.sampled_from(added), unique_by=id)):
            entries.remove(each)
            added.remove(each)

    expected = sorted(added, key=lambda each: str(each.message.headers.get("s", "")))
    without = [each for each in added if not each.message.headers]

    assert list(entries) == without + [each for each in expected if each.message.headers]


def test_a_long_line_stays_sorted() -> None:
    texts = [f"{number * 7919 % 10007:05}" for number in range(4 * RUN_LENGTH)]

    entries, added = line(*texts)

    assert list(entries) == sorted(added, key=lambda each: str(each.message.headers["s"]))
