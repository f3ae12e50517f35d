"""One timer for many instants."""

from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.timeline import NEVER
from django_mq.engine.timer import Timer


def test_the_first_instant_sets_the_timer() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)

    assert timer.arm(5.0)

    assert (was_set, timer.at) == ([5.0], 5.0)


def test_only_an_earlier_instant_sets_it_again() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)

    assert [timer.arm(when) for when in (5.0, 5.0, 7.0, 3.0)] == [True, False, False, True]

    assert (was_set, timer.at) == ([5.0, 3.0], 3.0)


@pytest.mark.parametrize("when", [None, NEVER])
def test_nothing_to_come_needs_no_timer(when: float | None) -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)

    assert not timer.arm(when)

    assert (was_set, timer.at) == ([], None)


@pytest.mark.parametrize("now", [5.0, 5.1, 1e9])
def test_at_its_instant_or_later_it_is_time_to_look(now: float) -> None:
    timer = Timer(lambda _: None)
    timer.arm(5.0)

    assert timer.fired(now)
    assert timer.at is None


def test_an_early_wake_up_sets_the_timer_again() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)
    timer.arm(5.0)

    assert [timer.fired(4.9), timer.fired(4.999), timer.fired(5.0)] == [False, False, True]

    assert was_set == [5.0, 5.0, 5.0]


def test_a_wake_up_nobody_asked_for_does_nothing() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)

    assert not timer.fired(5.0)
    assert was_set == []


def test_a_later_instant_is_armed_after_the_earlier_has_fired() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)
    timer.arm(3.0)
    timer.arm(5.0)

    timer.fired(3.0)

    assert timer.arm(5.0)
    assert was_set == [3.0, 5.0]


def test_what_is_put_in_while_somebody_looks_is_not_slept_through() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)
    timer.arm(3.0)

    timer.fired(3.0)
    timer.arm(4.0)  # by a publisher, behind the looker's back
    timer.arm(9.0)  # by the looker, who saw nothing else

    assert timer.at == was_set[-1] == 4.0


def test_an_instant_that_could_not_be_set_is_not_relied_upon() -> None:
    was_set: list[float] = []

    def set_timer(when: float) -> None:
        if when == 5.0:
            raise RuntimeError
        was_set.append(when)

    timer = Timer(set_timer)

    with pytest.raises(RuntimeError):
        timer.arm(5.0)

    assert timer.arm(6.0)
    assert was_set == [6.0]


def test_of_instants_armed_at_once_the_earliest_is_set_last() -> None:
    was_set: list[float] = []
    timer = Timer(was_set.append)
    start = Barrier(8)

    def arm_many(first: int) -> None:
        start.wait(60)
        for when in range(4000 - first, 0, -8):
            timer.arm(when)

    threads = [Thread(target=arm_many, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert was_set == sorted(was_set, reverse=True)
    assert timer.at == was_set[-1] == 1


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
    st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_everything_is_promoted_when_it_is_due_however_early_the_wake_ups(
    arrivals: list[tuple[int, int]], early: list[bool]
) -> None:
    """One tick of a clock after the other; now and then the timer wakes a tick early."""
    alarms: list[float] = []
    timer = Timer(lambda when: alarms.__setitem__(slice(None), [when]))
    waiting: list[int] = []
    promoted: list[tuple[int, int]] = []

    for now in range(60):
        for due_at in (at + delay for at, delay in arrivals if at == now):
            waiting.append(due_at)
            timer.arm(due_at)
        if alarms and alarms[0] - early[now] <= now:
            alarms.clear()
            if timer.fired(now):
                promoted += [(due_at, now) for due_at in waiting if due_at <= now]
                waiting = [due_at for due_at in waiting if due_at > now]
                timer.arm(min(waiting, default=None))

    assert sorted(promoted) == sorted((at + delay, at + delay) for at, delay in arrivals)
