"""How many messages a session claims ahead, by the pace at which it ends them."""

from __future__ import annotations

from django_mq.engine.decisions.claim import MOST_AHEAD, Pace

#: So many have ended in next to no time.
VERY_MANY = 10**12


def test_whoever_has_ended_nothing_claims_nothing_ahead() -> None:
    pace = Pace(0.0)

    pace.claimed(settled=7, held=4, now=0.0)

    assert pace.amount(settled=7, now=1.0) == 0


def test_what_is_claimed_ahead_is_what_ends_very_soon() -> None:
    pace = Pace(0.0)

    pace.claimed(settled=0, held=100, now=5.0)

    assert pace.amount(settled=100, now=5.1) == 50


def test_what_is_claimed_ahead_at_most_doubles() -> None:
    pace = Pace(0.0)
    assert pace.amount(settled=VERY_MANY, now=1.0) == 0

    pace.claimed(settled=0, held=4, now=1.0)

    assert pace.amount(settled=VERY_MANY, now=2.0) == 8


def test_what_is_claimed_ahead_is_bounded() -> None:
    pace = Pace(0.0)

    pace.claimed(settled=0, held=MOST_AHEAD, now=1.0)

    assert pace.amount(settled=VERY_MANY, now=2.0) == MOST_AHEAD
