from django_mq.engine.decisions.places import place_of
from django_mq.engine.states import State
from django_mq.inprocess.entries.entry import Placement
from tests.engine.builders import message


def test_a_message_without_a_time_is_ready_in_the_level_of_its_priority() -> None:
    entry = Placement(levels=3).entry(message(priority=9), arrival=7, now=0.0)

    assert (entry.state, entry.order, entry.due_at) == (State.READY, (-2, 0, 7), None)


def test_a_message_for_later_is_scheduled_with_the_place_it_will_have() -> None:
    entry = Placement().entry(message(deliver_at=10.0), arrival=1, now=9.9)

    assert (entry.state, entry.due_at, entry.place) == (State.SCHEDULED, 10.0, place_of(10.0, due_first=True))


def test_a_message_that_is_due_already_is_ready_and_stands_where_it_would_have_stood() -> None:
    entry = Placement().entry(message(deliver_at=10.0), arrival=1, now=10.0)

    assert (entry.state, entry.place) == (State.READY, place_of(10.0, due_first=True))
