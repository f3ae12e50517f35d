from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.backoff import Backoff
from django_mq.errors import OutOfRange


def numbers(*values: float) -> Callable[[], float]:
    return iter(values).__next__


def test_the_delay_grows_by_the_multiplier_until_the_cap() -> None:
    backoff = Backoff(base_seconds=5, multiplier=2, cap_seconds=15)

    assert [backoff.delay(attempt) for attempt in range(1, 5)] == [5, 10, 15, 15]


def test_the_cap_is_ten_times_the_base_unless_given() -> None:
    assert Backoff(base_seconds=3, multiplier=100).delay(9) == 30


def test_without_a_base_there_is_no_delay() -> None:
    assert Backoff().delay(5) == 0


def test_attempts_below_the_first_wait_as_long_as_the_first() -> None:
    assert Backoff(base_seconds=2, multiplier=3).delay(0) == 2


def test_jitter_moves_the_delay_either_way() -> None:
    backoff = Backoff(base_seconds=10, jitter=0.5)

    assert backoff.delay(1, numbers(0.0, 0.4)) == 12
    assert backoff.delay(1, numbers(0.9, 0.4)) == 8


def test_at_the_cap_jitter_only_shortens() -> None:
    backoff = Backoff(base_seconds=10, cap_seconds=10, jitter=0.5)

    assert backoff.delay(1, numbers(0.0, 0.4)) == 10
    assert backoff.delay(1, numbers(0.9, 0.4)) == 8


def test_a_message_that_failed_a_million_times_waits_for_the_cap() -> None:
    assert Backoff(base_seconds=1, multiplier=2).delay(1_000_000) == 10


def test_a_delay_is_cut_to_whole_ticks_of_the_clock() -> None:
    assert Backoff(base_seconds=3, multiplier=1.5, ticks_per_second=1).delay(2) == 4
    assert Backoff(base_seconds=0.29, ticks_per_second=100).delay(1) == 0.29
    assert Backoff(base_seconds=0.005, ticks_per_second=100).delay(1) == 0
    assert Backoff(base_seconds=1e300, multiplier=1e300, cap_seconds=7, ticks_per_second=10).delay(2) == 7


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_never_negative_nor_above_the_cap(attempt: int, sign: float, size: float) -> None:
    backoff = Backoff(base_seconds=1.5, multiplier=1.7, jitter=1.0)

    assert 0 <= backoff.delay(attempt, numbers(sign, size)) <= backoff.cap


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_seconds": -1},
        {"multiplier": -1},
        {"cap_seconds": -1},
        {"jitter": 1.1},
        {"jitter": -0.1},
        {"ticks_per_second": -1},
    ],
)
def test_absurd_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OutOfRange):
        Backoff(**wrong)
