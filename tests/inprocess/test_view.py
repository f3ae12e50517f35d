from django_mq.inprocess.entries.lists import FifoList
from django_mq.inprocess.entries.view import View
from tests.inprocess.builders import entry, names


def look(view: View, ready: FifoList) -> list[str]:
    seen = []
    while (each := view.next_in(ready)) is not None:
        view.saw(each)
        seen.append(each)
    return names(seen)


def test_each_entry_is_seen_once_in_order() -> None:
    view, ready = View(), FifoList()
    for arrival in (1, 2):
        ready.add(entry(str(arrival), arrival=arrival))

    assert look(view, ready) == ["1", "2"]
    assert look(view, ready) == []


def test_a_new_arrival_ahead_of_the_position_is_seen_without_repeating_the_rest() -> None:
    view, ready = View(), FifoList()
    ready.add(entry("old", arrival=1))
    look(view, ready)
    ahead = entry("ahead", level=9, arrival=2)

    ready.add(ahead)
    view.arrived(ahead)

    assert look(view, ready) == ["ahead"]


def test_what_was_given_back_is_not_seen_again() -> None:
    view, ready = View(), FifoList()
    ready.add(entry("last", arrival=2))
    look(view, ready)
    view.looked(2, to_the_end=True)
    returned = entry("returned", arrival=1, redelivered=True)

    ready.add(returned)
    view.arrived(returned)

    assert look(view, ready) == []


def test_an_arrival_that_left_again_is_not_seen() -> None:
    view, ready = View(), FifoList()
    ready.add(entry("old", arrival=1))
    look(view, ready)
    ahead = entry("ahead", level=9, arrival=2)
    view.arrived(ahead)

    view.left(ahead)

    assert look(view, ready) == []


def test_a_browser_that_saw_the_end_has_passed_what_was_held_then() -> None:
    view, ready = View(), FifoList()
    assert look(view, ready) == []
    view.looked(1, to_the_end=True)
    returned, new = entry("returned", arrival=1, redelivered=True), entry("new", arrival=2)

    for each in (returned, new):
        ready.add(each)
        view.arrived(each)

    assert look(view, ready) == ["new"]
    assert view.looks_back  # until the passed one leaves
    view.left(returned)
    assert not view.looks_back


def test_what_was_given_back_before_the_browser_came_by_is_seen() -> None:
    view, ready = View(), FifoList()
    ready.add(entry("old", arrival=1))
    look(view, ready)
    view.looked(1, to_the_end=True)
    ahead = entry("ahead", level=9, arrival=2, redelivered=True)

    ready.add(ahead)
    assert view.arrived(ahead)

    assert look(view, ready) == ["ahead"]


def test_what_came_back_is_seen_in_order_with_what_must_be_looked_at_again() -> None:
    view, ready = View(again=True), FifoList()
    freed, returned, last = (entry(str(arrival), arrival=arrival) for arrival in (1, 2, 3))
    ready.add(freed)
    ready.add(last)
    look(view, ready)

    ready.add(returned)
    view.arrived(returned)
    view.move_back(freed)

    first = view.next_in(ready)
    assert first is freed
    view.saw(freed)
    assert view.next_in(ready) is returned


def test_looking_again_comes_to_an_end() -> None:
    view, ready = View(again=True), FifoList()
    entries = [entry(str(arrival), arrival=arrival) for arrival in range(4)]
    for each in entries:
        ready.add(each)
    look(view, ready)
    view.arrived(entries[2])

    view.move_back(entries[1])

    seen = look(view, ready)
    assert set(seen) == {"1", "2", "3"}
    assert seen == sorted(seen)


def test_an_earlier_entry_to_look_at_again_is_not_forgotten_for_a_later_one() -> None:
    view, ready = View(again=True), FifoList()
    entries = [entry(str(arrival), arrival=arrival) for arrival in range(4)]
    for each in entries:
        ready.add(each)
    look(view, ready)

    view.move_back(entries[1])
    view.move_back(entries[2])

    assert look(view, ready) == ["1", "2", "3"]


def test_a_view_from_the_tail_sees_what_comes_after_only() -> None:
    ready = FifoList()
    ready.add(entry("old", arrival=1))
    view = View(ready, from_tail=True)
    new = entry("new", arrival=2)

    ready.add(new)
    view.arrived(new)

    assert look(view, ready) == ["new"]
