"""Rates: how much may begin in any window of time."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.rates import UNUSED, Rate, after_use, wait_seconds
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RATES = st.builds(
    Rate,
    amount=st.integers(1, 50),
    seconds=st.sampled_from([0.5, 1.0, 7.0, 60.0]),
    burst=st.sampled_from([1.0, 2.0, 5.0, 20.0]),
)
#: The seconds between two arrivals, and the weight of the second.
ARRIVALS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.01, 0.3, 2.0, 100.0]), st.sampled_from([1.0, 1.0, 2.0, 0.5])),
    max_size=60,
)


def begun(rate: Rate, arrivals: Sequence[tuple[float, float]], *, waits: bool) -> Iterator[tuple[float, float]]:
    """Yield when each message begins, and its weight: those that must wait do so in order, or are dropped."""
    used, free = UNUSED, float("-inf")
    times = accumulate(gap for gap, _ in arrivals)
    for at, (_, weight) in zip(times, arrivals, strict=True):
        now = max(at, free)
        waiting = wait_seconds(rate, used, now, weight)
        if waiting and not waits:
            continue
        free = now + waiting
        assert wait_seconds(rate, used, free, weight) == pytest.approx(0, abs=1e-6)
        used = after_use(rate, used, free, weight)
        yield free, weight


@given(RATES, ARRIVALS, st.booleans())
def test_no_window_has_more_than_the_burst_and_the_rate(
    rate: Rate, arrivals: list[tuple[float, float]], waits: bool
) -> None:
    found = list(begun(rate, arrivals, waits=waits))

    # A message that weighs more than the burst comes on top by what it weighs more.
    most_at_once = max([rate.burst, *(weight for _, weight in found)])
    for first, (begin, _) in enumerate(found):
        total = 0.0
        for end, weight in found[first:]:
            total += weight
            assert total <= most_at_once + (end - begin) / rate.interval + 1e-6


@given(RATES, st.integers(1, 100))
def test_a_rate_that_is_always_asked_for_is_used_in_full(rate: Rate, number: int) -> None:
    found = list(begun(rate, [(0.0, 1.0)] * number, waits=True))

    at_once = min(number, int(rate.burst))
    assert [when for when, _ in found[:at_once]] == [0.0] * at_once
    assert found[-1][0] == pytest.approx(max(0.0, number - rate.burst) * rate.interval)


@given(RATES, st.lists(st.floats(0.0, 59.0), max_size=20))
def test_a_clock_that_lags_lets_no_more_begin(rate: Rate, lags: list[float]) -> None:
    used = UNUSED
    for _ in range(int(rate.burst)):
        used = after_use(rate, used, 1000.0)

    for lag in lags:
        assert wait_seconds(rate, used, 1000.0 - lag) == pytest.approx(rate.interval)


def test_a_clock_that_is_set_back_or_ahead_keeps_no_key_waiting() -> None:
    rate = Rate(1, 10.0)
    used = after_use(rate, UNUSED, 1_000_000.0)

    back, ahead = 1_000.0, 9_000_000.0
    assert wait_seconds(rate, used, back) == 10.0
    assert wait_seconds(rate, after_use(rate, used, back), back + 5) == pytest.approx(15.0)
    assert wait_seconds(rate, used, ahead) == 0.0
    assert wait_seconds(rate, after_use(rate, used, ahead), back) == 10.0


def test_a_message_heavier_than_the_burst_begins_alone() -> None:
    rate = Rate(1, 1.0, burst=2.0)
    used = after_use(rate, UNUSED, 0.0, weight=10.0)

    assert wait_seconds(rate, UNUSED, 0.0, weight=10.0) == 0.0
    assert [wait_seconds(rate, used, 0.0, weight) for weight in (1.0, 2.0, 10.0)] == [9.0, 10.0, 10.0]


@pytest.mark.parametrize("value", [0, -1, 1e-320, 10**400, float("nan"), float("inf"), True, "5", None])
@pytest.mark.parametrize("name", ["amount", "seconds", "burst"])
def test_a_rate_of_nothing_is_refused(name: str, value: object) -> None:
    with pytest.raises(
        OutOfRange, match=f"The {name} of a rate is .*; use a number from 0.000001 to 1,000,000,000"
    ):
        Rate(**{"amount": 1, "seconds": 1.0, "burst": 1.0} | {name: value})
