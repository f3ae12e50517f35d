"""What limits the delivery of a queue: the nearest cause of all that hold."""

from __future__ import annotations

from typing import Any

from django_mq.engine.decisions.claim_limits import Fill
from django_mq.engine.decisions.keyed_limits import Allowed, Concurrency, LimitFacts, OpenKeyedLimits, Throttle
from django_mq.engine.decisions.limiting_factor import DeliveryFacts, Factor, limited_by, stopped_by
from django_mq.engine.decisions.rates import Rate, Used

BUSY: dict[str, Any] = {"busy_slots": 4, "slots": 4}
SPENT: dict[str, Any] = {"used_credit": 10, "credit": 10}


def test_the_nearest_cause_is_named_of_all_that_hold() -> None:
    for given, factor in (
        ({}, Factor.NOTHING),
        ({"paused": True, "waits": False, "workers": 0}, Factor.PAUSED),
        ({"waits": False, "workers": 0}, Factor.EMPTY),
        ({"waits": False, "parked": 3, "workers": 0}, Factor.KEYS),
        ({"workers": 0, "awake": 0, "unwanted": 3}, Factor.UNSERVED),
        ({"awake": 0, "unwanted": 3, **BUSY}, Factor.QUIET),
        ({"unwanted": 3, **BUSY}, Factor.UNWANTED),
        ({"in_flight": 3, "most_in_flight": 3, **BUSY}, Factor.QUEUE),
        ({"in_flight": 2, "most_in_flight": 3}, Factor.NOTHING),
        ({"workers": 2, "most_receivers": 1}, Factor.RECEIVERS),
        ({"workers": 1, "most_receivers": 1}, Factor.NOTHING),
        ({"workers": 1, "most_receivers": 1, **BUSY}, Factor.RECEIVERS),
        ({**BUSY, **SPENT, "parked": 3}, Factor.SLOTS),
        (SPENT, Factor.SLOTS),
        ({**SPENT, "busy_slots": 1, "slots": 4}, Factor.CREDIT),
        ({"parked": 3, "grouped": True}, Factor.KEYS),
        ({"grouped": True, "strict": True}, Factor.GROUPS),
        ({"strict": True}, Factor.ORDER),
    ):
        facts = DeliveryFacts(**given)
        assert limited_by(facts) is factor, given
        assert stopped_by(facts) in {factor, None}, given


def test_the_keys_of_limits_say_how_full_they_are() -> None:
    limits = [Concurrency(name="slots", key="group", at_once=4), Throttle(name="api", rate=Rate(2, 1.0, burst=3))]
    facts = LimitFacts(
        now=1000.0,
        used={("api", ""): Used(1001.0, 1000.0), ("gone", ""): Used(1001.0, 1000.0)},
        held={},
        allowed={("slots", "acme"): Allowed(at_once=6)},
        running={("slots", "acme"): 6, ("slots", "zeta"): 1},
        waiting={("slots", "acme"): 0.0},
    )

    found = OpenKeyedLimits(limits, facts).fills()

    assert found == [
        Fill("api", "", 2.0, 3),
        Fill("slots", "acme", 6, 6, runs=True),
        Fill("slots", "zeta", 1, 4, runs=True),
    ]
    assert [fill.is_full for fill in found] == [False, True, False]
    assert [round(fill.share, 2) for fill in found] == [0.67, 1.0, 0.25]
