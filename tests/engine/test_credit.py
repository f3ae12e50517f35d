import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.credit.prefetch import PrefetchCredit
from django_mq.engine.credit.window import WindowCredit
from django_mq.errors import OutOfRange


def test_a_window_without_limits_is_always_open() -> None:
    credit = WindowCredit()

    assert all(credit.take(1_000_000) for _ in range(1000))
    assert (credit.is_open, credit.free) == (True, None)


def test_a_window_counts_messages() -> None:
    credit = WindowCredit(messages=2)

    assert [credit.take(0) for _ in range(3)] == [True, True, False]
    assert (credit.is_open, credit.free) == (False, 0)


def test_settling_opens_the_window_again() -> None:
    credit = WindowCredit(messages=1)
    credit.take(0)

    credit.give_back(0)

    assert (credit.free, credit.take(0)) == (1, True)


def test_both_messages_and_bytes_must_allow() -> None:
    credit = WindowCredit(messages=2, size_bytes=10)

    assert credit.take(8)
    assert not credit.take(3)
    assert credit.take(2)
    assert not credit.take(0)


def test_refused_credit_is_not_used() -> None:
    credit = WindowCredit(size_bytes=10)

    credit.take(11)

    assert (credit.outstanding, credit.outstanding_bytes) == (0, 0)


def test_a_window_whose_bytes_are_used_up_wants_nothing() -> None:
    credit = WindowCredit(messages=5, size_bytes=10)

    credit.take(10)

    assert (credit.is_open, credit.free) == (False, 0)


def test_a_window_never_lets_through_more_than_its_bytes() -> None:
    assert not WindowCredit(size_bytes=10).allows(11)


def test_prefetch_lets_one_oversize_message_through_when_nothing_is_outstanding() -> None:
    credit = PrefetchCredit(size_bytes=10)

    assert [credit.take(30), credit.take(1)] == [True, False]
    credit.give_back(30)
    assert credit.take(1)
    assert not credit.take(30)


def test_a_shrunk_window_works_off_what_is_outstanding() -> None:
    credit = WindowCredit(messages=3)
    for _ in range(3):
        credit.take(0)

    credit.resize(1)

    opened = []
    for _ in range(3):
        credit.give_back(0)
        opened.append(credit.is_open)
    assert opened == [False, False, True]


@pytest.mark.parametrize("mode", [WindowCredit, PrefetchCredit])
def test_stopped_credit_stays_shut_whatever_comes_back(mode: type[WindowCredit]) -> None:
    credit = mode(messages=2, size_bytes=10)
    credit.take(4)

    credit.stop()
    credit.give_back(4)

    assert (credit.is_open, credit.free, credit.take(0), credit.take(20)) == (False, 0, False, False)


def test_credit_after_a_stop_is_counted_right() -> None:
    credit = WindowCredit(messages=2)
    credit.take(0)
    credit.stop()

    credit.resize(2)

    assert credit.free == 1


def test_too_much_given_back_does_not_widen_the_window() -> None:
    credit = WindowCredit(messages=1, size_bytes=1)

    credit.give_back(5)

    assert (credit.free, credit.outstanding_bytes) == (1, 0)


@pytest.mark.parametrize("limits", [(-1, None), (None, -1)])
def test_negative_limits_are_refused(limits: tuple[int | None, int | None]) -> None:
    with pytest.raises(OutOfRange):
        WindowCredit(*limits)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40))
def test_a_window_is_never_exceeded(steps: list[tuple[bool, int]]) -> None:
    credit, outstanding = WindowCredit(messages=4, size_bytes=10), []

    for take, size in steps:
        if take and credit.take(size):
            outstanding.append(size)
        elif not take and outstanding:
            credit.give_back(outstanding.pop())

        assert len(outstanding) <= 4
        assert sum(outstanding) <= 10
        assert credit.outstanding == len(outstanding)
