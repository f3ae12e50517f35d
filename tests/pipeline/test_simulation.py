"""The simulated queue against queues whose waits are known in closed form."""

from __future__ import annotations

import random
from math import sqrt
from statistics import mean, stdev

import pytest

from django_mq.errors import PipelineError
from django_mq.pipeline.whatif.job import Outcome, ranked, spreads
from django_mq.pipeline.whatif.scenario import Scenario, parse
from django_mq.pipeline.whatif.simulation import Arrival, most_at_once, simulate

REPLICAS = 24
#: Student's t for 99.9 percent and 23 degrees of freedom.
T = 3.77


def poisson(rate: float, size: int, dice: random.Random, urgent: float = 0.0) -> list[Arrival]:
    """Messages that come and are worked on at random, one a second being what a consumer can do."""
    at, trace = 0.0, []
    for _ in range(size):
        at += dice.expovariate(rate)
        trace.append(Arrival(at, 9 if dice.random() < urgent else 0, dice.expovariate(1.0)))
    return trace


def interval(values: list[float]) -> tuple[float, float]:
    half = T * stdev(values) / sqrt(len(values))
    return mean(values) - half, mean(values) + half


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_m_m_1_waits_as_the_formula_says(kind: str) -> None:
    scenario = Scenario(name="m/m/1", kind=kind)
    means = [mean(simulate(poisson(0.5, 3000, random.Random(seed)), scenario)[300:]) for seed in range(REPLICAS)]

    low, high = interval(means)

    assert low <= 1.0 <= high  # rho / (mu - lambda)
    assert high - low < 0.4


def test_two_classes_wait_as_the_formula_says() -> None:
    urgent, plain = [], []
    for seed in range(REPLICAS):
        trace = poisson(0.6, 3000, random.Random(100 + seed), urgent=0.5)
        waits = simulate(trace, Scenario(name="classes"))
        urgent.append(mean(w for w, a in zip(waits[300:], trace[300:], strict=True) if a.priority == 9))
        plain.append(mean(w for w, a in zip(waits[300:], trace[300:], strict=True) if a.priority == 0))

    first, second = interval(urgent), interval(plain)

    # Without preemption: R / (1 - rho1), and R / ((1 - rho1)(1 - rho1 - rho2)), R being the work begun.
    assert first[0] <= 0.6 / 0.7 <= first[1]
    assert second[0] <= 0.6 / (0.7 * 0.4) <= second[1]


def test_known_traces_by_hand() -> None:
    trace = [Arrival(0, 0, 10), Arrival(1, 0, 10), Arrival(2, 9, 10), Arrival(3, 5, 10)]

    assert simulate(trace, Scenario(name="a")) == [0, 29, 8, 17]
    assert simulate(trace, Scenario(name="b", kind="fifo")) == [0, 9, 18, 27]
    assert simulate(trace, Scenario(name="c", consumers=2)) == [0, 0, 8, 8]
    assert simulate(trace, Scenario(name="d", consumers=9)) == [0, 0, 0, 0]
    assert simulate(trace, Scenario(name="e", service=0.1)) == [0, 0, 0, 0]
    assert simulate(trace, Scenario(name="f", arrivals=2)) == [0, 29.5, 9, 18.5]
    # What was taken ahead can no longer be overtaken.
    assert simulate(trace, Scenario(name="g", credit=2)) == [0, 9, 18, 27]
    assert simulate(trace, Scenario(name="h", levels=1)) == [0, 9, 18, 27]
    assert simulate([], Scenario(name="i")) == []


def test_every_message_is_worked_on_once() -> None:
    trace = poisson(3.0, 500, random.Random(1), urgent=0.3)

    waits = simulate(trace, Scenario(name="busy", consumers=3, credit=4))

    assert len(waits) == 500
    assert min(waits) >= 0
    spans = [(a.at + w, a.at + w + a.service) for a, w in zip(trace, waits, strict=True)]
    assert most_at_once(spans) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x:consumers=0", "consumers is 0; use more than 0"),
        ("x:colour=red", "there is no setting 'colour'"),
        ("x:consumers=many", "it has to be a number"),
        ("x:kind=sorted", "use priority or fifo"),
        ("x:levels=11", "use 1 to 10"),
        ("x:service=nan", "service is nan"),
    ],
)
def test_a_scenario_that_cannot_be_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        parse(text)


def test_a_scenario_is_read_from_text() -> None:
    assert parse("more:consumers=4,kind=fifo,service=0.5") == Scenario(
        name="more", consumers=4, kind="fifo", service=0.5
    )
    assert parse("as it is") == Scenario(name="as it is")


def test_outcomes_are_ranked_by_p95_within_their_class() -> None:
    rows = [*spreads("slow", [1, 2, 3], [0, 0, 9]), *spreads("fast", [1, 1, 5], [0, 0, 9])]

    found = {(one.scenario, one.level): one.rank for one in ranked([Outcome(*row) for row in rows])}

    assert found[("fast", 0)] == found[("slow", 9)] == 1
    assert found[("slow", 0)] == found[("fast", 9)] == 2
