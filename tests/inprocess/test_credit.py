from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.credit import MOST, Credit, PrefetchCredit, WindowCredit
from django_mq.errors import OutOfRange, UncountedUnit
from django_mq.inprocess.consumers.credit import OverdraftCredit, SpendingCredit

EVERY_MODE: list[type[Credit]] = [WindowCredit, PrefetchCredit, SpendingCredit, OverdraftCredit]


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


def test_an_empty_message_needs_bytes_that_are_not_used_up() -> None:
    credit = WindowCredit(size_bytes=10)
    credit.take(10)

    assert (credit.allows(0), credit.take(0)) == (False, False)


def test_adding_raises_the_ceilings_of_a_window() -> None:
    credit = WindowCredit(messages=1, size_bytes=10)
    credit.take(10)

    credit.add(messages=2, size_bytes=5)

    assert (credit.free, credit.allows(5), credit.allows(6)) == (2, True, False)


def test_a_window_that_was_given_no_limit_keeps_none() -> None:
    credit = WindowCredit(messages=1)

    credit.add(messages=None)
    credit.add(messages=5)

    assert credit.free is None


def test_a_stopped_window_is_opened_by_adding_to_both_ceilings() -> None:
    credit = WindowCredit(messages=2)
    credit.take(0)
    credit.stop()

    credit.add(messages=2)
    assert not credit.is_open
    credit.add(size_bytes=None)
    assert credit.free == 1


def test_prefetch_works_off_bytes_beyond_a_smaller_limit() -> None:
    credit = PrefetchCredit(size_bytes=10)
    credit.take(5)
    credit.take(5)

    credit.resize(None, 4)

    opened = []
    for _ in range(2):
        credit.give_back(5)
        opened.append(credit.take(1))
        if opened[-1]:
            credit.give_back(1)
    assert opened == [False, True]


def test_prefetch_counts_messages_also_for_an_oversize_one() -> None:
    credit = PrefetchCredit(messages=1, size_bytes=10)
    credit.take(0)

    assert (credit.allows(30), credit.take(30)) == (False, False)


def test_spent_credit_is_not_given_back() -> None:
    credit = SpendingCredit(messages=1, size_bytes=None)

    assert credit.take(7)
    credit.give_back(7)

    assert (credit.is_open, credit.free, credit.take(7)) == (False, 0, False)


def test_spending_starts_with_nothing() -> None:
    assert (SpendingCredit().is_open, SpendingCredit().free) == (False, 0)


@pytest.mark.parametrize("balances", [(5, 0), (0, 5), (None, 0), (0, None)])
def test_spending_needs_both_balances_even_for_an_empty_message(balances: tuple[int | None, int | None]) -> None:
    credit = SpendingCredit(*balances)

    assert (credit.is_open, credit.free, credit.take(0)) == (False, 0, False)


def test_spending_never_delivers_more_bytes_than_are_left() -> None:
    credit = SpendingCredit(messages=5, size_bytes=10)

    assert [credit.take(11), credit.take(4), credit.take(7), credit.take(6)] == [False, True, False, True]
    assert (credit.messages, credit.size_bytes) == (3, 0)


@pytest.mark.parametrize("unlimited", [None, -1])
def test_spending_without_limit_ignores_what_is_added(unlimited: int | None) -> None:
    credit = SpendingCredit(messages=1, size_bytes=unlimited)

    credit.add(messages=unlimited, size_bytes=3)
    credit.add(messages=1, size_bytes=1)

    assert (credit.free, credit.take(1_000_000)) == (None, True)


def test_spending_adds_to_what_is_left() -> None:
    credit = SpendingCredit(messages=1, size_bytes=10)
    credit.take(4)

    credit.add(messages=2, size_bytes=1)

    assert (credit.messages, credit.size_bytes) == (2, 7)


def test_stopped_spending_forgets_that_it_had_no_limit() -> None:
    credit = SpendingCredit(messages=None, size_bytes=None)

    credit.stop()
    credit.add(messages=1, size_bytes=9)

    assert [credit.take(9), credit.take(0)] == [True, False]


def test_sums_stop_at_the_largest_amount() -> None:
    credit = SpendingCredit(messages=MOST, size_bytes=MOST)

    credit.add(messages=MOST, size_bytes=1)

    assert (credit.messages, credit.size_bytes) == (MOST, MOST)


def test_the_last_message_may_overdraw() -> None:
    credit = OverdraftCredit(size_bytes=10)

    assert [credit.take(9), credit.take(100), credit.take(0)] == [True, True, False]
    assert (credit.size_bytes, credit.is_open, credit.free) == (-99, False, 0)


def test_an_overdraft_is_worked_off_before_anything_is_delivered() -> None:
    credit = OverdraftCredit(size_bytes=1)
    credit.take(11)

    opened = []
    for _ in range(3):
        credit.add(size_bytes=5)
        opened.append(credit.is_open)

    assert opened == [False, False, True]


def test_settling_pays_no_overdraft() -> None:
    credit = OverdraftCredit(size_bytes=1)
    credit.take(5)

    credit.give_back(5)

    assert not credit.is_open


def test_an_overdraft_without_limit_delivers_any_number() -> None:
    credit = OverdraftCredit(size_bytes=None)
    credit.add(size_bytes=1)

    assert all(credit.take(1_000_000) for _ in range(1000))
    assert (credit.is_open, credit.free) == (True, None)


def test_stopping_forgives_an_overdraft() -> None:
    credit = OverdraftCredit(size_bytes=1)
    credit.take(1000)

    credit.stop()
    assert not credit.is_open
    credit.add(size_bytes=1)

    assert credit.take(1000)


def test_a_unit_that_is_not_counted_is_refused_and_changes_nothing() -> None:
    overdraft = OverdraftCredit(2)

    with pytest.raises(UncountedUnit):
        overdraft.add(messages=1, size_bytes=1)
    with pytest.raises(UncountedUnit):
        overdraft.resize(1, 1)

    assert overdraft.size_bytes == 2


def state(credit: Credit) -> list[object]:
    slots = [name for mode in type(credit).__mro__ for name in getattr(mode, "__slots__", ())]
    return [getattr(credit, name) for name in slots]


@pytest.mark.parametrize("bad", [True, False, 1.0, float("nan"), 2**63 + 1, -(2**64), "1"])
@pytest.mark.parametrize("mode", EVERY_MODE)
def test_what_is_no_amount_is_refused_and_changes_nothing(mode: type[Credit], bad: Any) -> None:
    if mode is SpendingCredit and isinstance(bad, int) and bad < 0:
        bad = 2**64  # a negative amount is this mode's way to say any number
    unit = "size_bytes" if mode is OverdraftCredit else "messages"
    other = "messages" if unit == "size_bytes" else "size_bytes"
    credit = mode()
    before = state(credit)

    with pytest.raises(OutOfRange):
        credit.add(**{unit: bad})
    with pytest.raises(OutOfRange):
        credit.resize(**{unit: bad, other: None})
    with pytest.raises(OutOfRange):
        mode(**{unit: bad})

    assert state(credit) == before


@pytest.mark.parametrize("mode", [WindowCredit, PrefetchCredit, SpendingCredit])
def test_a_bad_second_amount_leaves_the_first_alone(mode: type[Credit]) -> None:
    credit = mode()
    before = state(credit)

    with pytest.raises(OutOfRange):
        credit.add(5, 2**64)
    with pytest.raises(OutOfRange):
        credit.resize(5, 2**64)

    assert state(credit) == before


#: One call of a credit's methods, by name and arguments.
a_call = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 6)),
    st.tuples(st.just("give_back"), st.integers(0, 6)),
    st.tuples(st.just("stop")),
    st.tuples(st.sampled_from(["add", "resize"]), st.none() | st.integers(0, 6), st.none() | st.integers(0, 9)),
)


@given(st.sampled_from(EVERY_MODE), st.lists(a_call, max_size=40), st.integers(0, 6))
def test_every_mode_answers_consistently(mode: type[Credit], calls: list[tuple[Any, ...]], size: int) -> None:
    credit = mode()

    for name, *arguments in calls:
        with suppress(UncountedUnit):
            getattr(credit, name)(*arguments)

        assert (credit.free == 0) == (not credit.is_open)
        assert credit.is_open or not credit.allows(size)
        if name == "stop":
            assert not credit.is_open
    allowed = credit.allows(size)
    assert credit.take(size) == allowed


@given(st.sampled_from(EVERY_MODE), st.lists(st.integers(0, 6), max_size=20))
def test_stopped_credit_of_any_mode_stays_shut(mode: type[Credit], sizes: list[int]) -> None:
    credit = mode()
    taken = [size for size in sizes if credit.take(size)]

    credit.stop()
    for size in taken:
        credit.give_back(size)

    assert (credit.is_open, credit.allows(0), credit.take(0)) == (False, False, False)


@given(
    st.integers(0, 9),
    st.integers(0, 30),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(0, 9)), max_size=30),
)
def test_spending_never_exceeds_all_it_was_given(
    messages: int, size_bytes: int, steps: list[tuple[int, int, int]]
) -> None:
    credit, taken = SpendingCredit(messages, size_bytes), []

    for size, more_messages, more_bytes in steps:
        if credit.take(size):
            taken.append(size)
            credit.give_back(size)
        credit.add(more_messages, more_bytes)
        messages += more_messages
        size_bytes += more_bytes

        assert (credit.messages, credit.size_bytes) == (messages - len(taken), size_bytes - sum(taken))
        assert len(taken) <= messages
        assert sum(taken) <= size_bytes


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
