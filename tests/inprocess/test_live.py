import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.errors import OutOfRange
from django_mq.inprocess.consumers.admission import LiveConsumers
from django_mq.inprocess.consumers.consumer import Consumer


def come(live: LiveConsumers, *priorities: int) -> list[Consumer]:
    consumers = [Consumer(f"c{number}", priority=priority) for number, priority in enumerate(priorities, 1)]
    for consumer in consumers:
        live.add(consumer)
    return consumers


def who_is_live(live: LiveConsumers, consumers: list[Consumer]) -> list[str]:
    return [consumer.name for consumer in consumers if live.is_live(consumer)]


def test_the_first_receive_and_the_others_stand_by() -> None:
    live = LiveConsumers(2)

    assert [live.add(Consumer(name)) for name in "abc"] == [True, True, False]


def test_a_standby_follows_a_live_one_that_leaves() -> None:
    live = LiveConsumers(1)
    first, second, third = come(live, 0, 0, 0)

    assert live.remove(first) is second
    assert (live.is_live(first), live.is_live(second), live.is_live(third)) == (False, True, False)


def test_the_standby_of_the_highest_priority_follows_and_among_equals_the_oldest() -> None:
    live = LiveConsumers(1)
    first, low, high, younger = come(live, 0, 1, 5, 5)

    assert [live.remove(leaving) for leaving in (first, high, younger, low)] == [high, younger, low, None]


def test_a_standby_drives_nobody_out() -> None:
    live = LiveConsumers(1)
    consumers = come(live, 0, 9)

    assert who_is_live(live, consumers) == ["c1"]


def test_nobody_follows_a_standby_that_leaves() -> None:
    live = LiveConsumers(1)
    consumers = come(live, 0, 0, 0)

    assert live.remove(consumers[1]) is None
    assert who_is_live(live, consumers) == ["c1"]


def test_a_stranger_leaves_no_trace() -> None:
    live = LiveConsumers(1)

    assert live.remove(Consumer("stranger")) is None
    assert not live.is_live(Consumer("stranger"))


def test_more_room_makes_standbys_live_in_turn() -> None:
    live = LiveConsumers(1)
    _, low, high, _ = come(live, 0, 0, 5, 0)

    assert live.resize(3) == [high, low]


def test_less_room_cuts_the_lowest_priority_and_the_youngest() -> None:
    live = LiveConsumers(4)
    consumers = come(live, 5, 0, 5, 0)

    assert live.resize(2) == []
    assert who_is_live(live, consumers) == ["c1", "c3"]

    live.resize(1)
    assert who_is_live(live, consumers) == ["c1"]


def test_who_was_cut_follows_before_younger_ones() -> None:
    live = LiveConsumers(2)
    first, second, _ = come(live, 0, 0, 0)
    live.resize(1)

    assert live.remove(first) is second


@pytest.mark.parametrize("most", [0, -1])
def test_at_least_one_consumer_is_live(most: int) -> None:
    with pytest.raises(OutOfRange, match=str(most)):
        LiveConsumers(most)

    live = LiveConsumers(2)
    with pytest.raises(OutOfRange):
        live.resize(most)
    assert live.most == 2


@given(st.lists(st.tuples(st.sampled_from(["come", "leave", "resize"]), st.integers(0, 5)), max_size=30))
def test_as_many_are_live_as_there_is_room_for(steps: list[tuple[str, int]]) -> None:
    live, there = LiveConsumers(2), list[Consumer]()

    for step, number in steps:
        before = {consumer for consumer in there if live.is_live(consumer)}
        if step == "come":
            there.append(Consumer("c", priority=number))
            promoted = {there[-1]} if live.add(there[-1]) else set()
        elif step == "resize":
            promoted = set(live.resize(1 + number))
        else:
            leaving = there.pop(number % len(there)) if there else Consumer("stranger")
            follower = live.remove(leaving)
            promoted = {follower} if follower else set()

        now_live = {consumer for consumer in there if live.is_live(consumer)}
        assert len(now_live) == min(live.most, len(there))
        assert promoted == now_live - before
