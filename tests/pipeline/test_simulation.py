"""The simulated queue against queues whose waits are known in closed form."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from statistics import mean, stdev

import pytest

from django_mq.engine.decisions.keyed_limits import Allowed
from django_mq.engine.decisions.rates import Rate
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.errors import PipelineError
from django_mq.pipeline.whatif.day import spreads, spreads_of_keys
from django_mq.pipeline.whatif.job import WaitFigures, ranked
from django_mq.pipeline.whatif.scenario import Scenario, parse, simulated
from django_mq.pipeline.whatif.simulation import Arrival, Simulated, most_at_once, simulate

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


def waits(trace: list[Arrival], scenario: Scenario) -> list[float]:
    """How long each message waited, all of which were done."""
    found = simulate(trace, scenario)
    assert not any(found.losses)
    return [wait for wait in found.waits if wait is not None]


def interval(values: list[float]) -> tuple[float, float]:
    half = T * stdev(values) / sqrt(len(values))
    return mean(values) - half, mean(values) + half


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_m_m_1_waits_as_the_formula_says(kind: str) -> None:
    scenario = Scenario(name="m/m/1", queue=QueueOptions(kind=kind))
    means = [mean(waits(poisson(0.5, 3000, random.Random(seed)), scenario)[300:]) for seed in range(REPLICAS)]

    low, high = interval(means)

    assert low <= 1.0 <= high  # rho / (mu - lambda)
    assert high - low < 0.4


def test_two_classes_wait_as_the_formula_says() -> None:
    urgent, plain = [], []
    for seed in range(REPLICAS):
        trace = poisson(0.6, 3000, random.Random(100 + seed), urgent=0.5)
        found = waits(trace, Scenario(name="classes"))
        urgent.append(mean(w for w, a in zip(found[300:], trace[300:], strict=True) if a.priority == 9))
        plain.append(mean(w for w, a in zip(found[300:], trace[300:], strict=True) if a.priority == 0))

    first, second = interval(urgent), interval(plain)

    # Without preemption: R / (1 - rho1), and R / ((1 - rho1)(1 - rho1 - rho2)), R being the work begun.
    assert first[0] <= 0.6 / 0.7 <= first[1]
    assert second[0] <= 0.6 / (0.7 * 0.4) <= second[1]


def test_known_traces_by_hand() -> None:
    trace = [Arrival(0, 0, 10), Arrival(1, 0, 10), Arrival(2, 9, 10), Arrival(3, 5, 10)]

    assert waits(trace, Scenario(name="a")) == [0, 29, 8, 17]
    assert waits(trace, Scenario(name="b", queue=QueueOptions(kind="fifo"))) == [0, 9, 18, 27]
    assert waits(trace, Scenario(name="c", consumers=2)) == [0, 0, 8, 8]
    assert waits(trace, Scenario(name="d", consumers=9)) == [0, 0, 0, 0]
    assert waits(trace, Scenario(name="e", service=0.1)) == [0, 0, 0, 0]
    assert waits(trace, Scenario(name="f", arrivals=2)) == [0, 29.5, 9, 18.5]
    # What was taken ahead can no longer be overtaken.
    assert waits(trace, Scenario(name="g", credit=2)) == [0, 9, 18, 27]
    assert waits(trace, Scenario(name="h", queue=QueueOptions(levels=1))) == [0, 9, 18, 27]
    assert waits([], Scenario(name="i")) == []


def test_every_message_is_worked_on_once() -> None:
    trace = poisson(3.0, 500, random.Random(1), urgent=0.3)

    found = waits(trace, Scenario(name="busy", consumers=3, credit=4))

    assert len(found) == 500
    assert min(found) >= 0
    spans = [(a.at + w, a.at + w + a.service) for a, w in zip(trace, found, strict=True)]
    assert most_at_once(spans) == 3


#: One message each second, each of which takes ten.
BUSY = [Arrival(second, 0, 10) for second in range(6)]


@pytest.mark.parametrize(
    ("text", "begun", "losses"),
    [
        ("in time:ttl_seconds=15", [0, 9, None, None, None, None], [None, None, *["expired"] * 4]),
        ("refuses:max_messages=2", [0, 9, None, None, None, None], [None, None, *["refused"] * 4]),
        ("drops:max_messages=2,overflow=drop", [0, 9, None, None, None, None], [None, None, *["dropped"] * 4]),
        ("ring:max_messages=2,overflow=ring", [0, None, None, None, None, 5], [None, *["replaced"] * 4, None]),
        ("waits:max_messages=2,overflow=flow,wait_seconds=99", [0, 9, 18, 27, 36, 45], [None] * 6),
        (
            "impatient:max_messages=2,overflow=flow,wait_seconds=16",
            [0, 9, 18, 27, 36, None],
            [*[None] * 5, "refused"],
        ),
        ("fails:failures=1,max_attempts=1", [0, 9, 18, 27, 36, 45], ["dead"] * 6),
        ("fails twice:failures=1,max_attempts=2,backoff_seconds=7", [0, 9, 38, 47, 76, 85], ["dead"] * 6),
    ],
)
def test_the_queues_own_rules_decide_what_is_done(
    text: str, begun: list[float | None], losses: list[str | None]
) -> None:
    assert simulate(BUSY, parse(text)) == (begun, losses)


def keyed(*arrivals: tuple[float, str, float], header: str = "tenant") -> list[Arrival]:
    """Messages of keys: when each comes, its key, and how long it is handled."""
    return [
        Arrival(at, 0, service, Message(id="", type="mail", headers={header: key} if key else {}))
        for at, key, service in arrivals
    ]


#: Two messages of a, one of b behind them.
TWO_KEYS = keyed((0, "a", 10), (0, "a", 10), (0, "b", 10))
#: A message of one key each second, each of which takes a second.
ONE_KEY = keyed(*((second, "a", 1) for second in range(5)))
#: Three messages of a, two of b behind them.
SHARED = keyed(*((0, key, 1) for key in "aaabb"))
SHORT = "consumers=9,unique=header:tenant,unique_second=drop"


@pytest.mark.parametrize(
    ("trace", "text", "begun", "losses"),
    [
        # Limits: what is over its limit waits, what is behind it passes.
        (TWO_KEYS, "x:consumers=9,concurrency=1 header:tenant", [0, 10, 0], [None] * 3),
        (TWO_KEYS, "x:consumers=9,throttle=1/60 header:tenant", [0, 60, 0], [None] * 3),
        (TWO_KEYS, "x:consumers=9,throttle=1/60/2 header:tenant", [0, 0, 0], [None] * 3),
        (TWO_KEYS, "x:consumers=9,rate_limit=1/60 header:tenant", [0, None, 0], [None, "limited", None]),
        (TWO_KEYS, "x:consumers=9,throttle=1/5", [0, 5, 10], [None] * 3),
        (TWO_KEYS, "x:consumers=9,throttle=1/5 header:none", [0, 0, 0], [None] * 3),
        (TWO_KEYS, "x:consumers=9,throttle=1/5,concurrency=1 header:tenant", [0, 10, 5], [None] * 3),
        (TWO_KEYS, "x:consumers=9,throttle=1/7 type", [0, 7, 14], [None] * 3),
        # What one consumer holds in memory takes no part of a limit.
        (TWO_KEYS, "x:credit=3,concurrency=1 header:tenant", [0, 10, 20], [None] * 3),
        # A retry gives its slot back, and takes another one.
        (
            TWO_KEYS,
            "x:consumers=9,concurrency=1 header:tenant,failures=1,max_attempts=1",
            [0, 10, 0],
            ["dead"] * 3,
        ),
        (
            TWO_KEYS,
            "x:consumers=9,concurrency=1 header:tenant,ttl_seconds=5",
            [0, None, 0],
            [None, "expired", None],
        ),
        # Fair places, and their weights.
        (SHARED, "x:due_order=keep_place", [0, 1, 2, 3, 4], [None] * 5),
        (SHARED, "x:fair_by=tenant,due_order=keep_place", [0, 1, 3, 2, 4], [None] * 5),
        (SHARED, "x:fair_by=tenant,fair_weights=a=1;b=4,due_order=keep_place", [0, 1, 4, 2, 3], [None] * 5),
        # Unique keys.
        (ONE_KEY[:2], f"x:{SHORT}", [0, 0], [None] * 2),
        (TWO_KEYS, f"x:{SHORT}", [0, None, 0], [None, "duplicate", None]),
        (TWO_KEYS, f"x:{SHORT},unique_until=begins", [0, 0, 0], [None] * 3),
        (
            ONE_KEY,
            f"x:{SHORT},unique_until=window,unique_seconds=3",
            [0, None, None, 0, None],
            [None, *["duplicate"] * 2, None, "duplicate"],
        ),
        (TWO_KEYS, "x:consumers=9,unique=header:none", [0, 0, 0], [None] * 3),
        (TWO_KEYS, "x:consumers=9,unique=header:tenant", [0, None, 0], [None, "duplicate", None]),
        (
            ONE_KEY,
            f"x:{SHORT},unique_until=begins,unique_second=replace,debounce_seconds=2,debounce_at_most_seconds=3",
            [0, None, None, 0, None],
            [None, "duplicate", "duplicate", None, "duplicate"],
        ),
    ],
)
def test_the_engines_rules_of_keys_decide_what_begins(
    trace: list[Arrival], text: str, begun: list[float | None], losses: list[str | None]
) -> None:
    assert simulate(trace, parse(text)) == (begun, losses)


def test_an_operators_exception_holds_for_its_key() -> None:
    limited = parse("x:consumers=9,throttle=1/60 header:tenant")
    allowed = {("throttle1", "a"): Allowed(rate=Rate(1, 20))}

    assert simulate(TWO_KEYS, replace(limited, allowed=allowed)).waits == [0, 20, 0]


def test_a_body_that_replaces_another_is_handled_in_its_time() -> None:
    trace = keyed((0, "b", 9), (1, "a", 5), (2, "a", 1), (3, "b", 1))

    found = simulate(trace, parse("x:unique=header:tenant,unique_until=begins,unique_second=replace"))

    assert found == ([0, 8, None, 7], [None, None, "duplicate", None])


def test_throttled_messages_wait_as_in_the_memory_store_however_many_there_are() -> None:
    trace = keyed(*((second / 10, "a", 0.01) for second in range(200)), *((20 + n, "b", 0.01) for n in range(3)))

    found = simulate(trace, parse("x:consumers=2,throttle=1/1 header:tenant"))

    begun = [each.at + (wait or 0) for each, wait in zip(trace, found.waits, strict=True)]
    assert found.losses == [None] * 203
    assert max(found.waits[200:], default=None) == 0
    assert [later - sooner for sooner, later in pairwise(begun[:200])] == pytest.approx([1] * 199, abs=1e-3)


def test_shares_are_of_what_began_while_others_waited() -> None:
    trace = keyed(*((0, "big", 1) for _ in range(20)), *((0, "small", 1) for _ in range(10)))

    figures = {}
    for text in ("by turn", "fair:fair_by=tenant,due_order=keep_place"):
        scenario = parse(text)
        keys = ["big"] * 20 + ["small"] * 10
        rows = spreads_of_keys(scenario.name, simulate(trace, scenario), keys, [0.0] * 30)
        figures |= {(one.scenario, one.key): one for one in (WaitFigures(*row) for row in rows)}

    assert figures["by turn", "small"].share == 0
    assert figures["fair", "small"].share == pytest.approx(0.5, abs=0.03)
    assert [figures[name, "small"].p50 for name in ("by turn", "fair")] == [24.5, 11]


def test_a_failed_message_is_tried_again_after_its_delay() -> None:
    twice = parse("x:failures=0.5,max_attempts=0,backoff_seconds=100,backoff_cap_seconds=100")

    found = simulate([Arrival(0, 0, 1), Arrival(200, 0, 1), Arrival(201, 0, 1)], twice)

    assert found.losses == [None] * 3
    assert found.waits[0] == 0


def test_the_same_deliveries_fail_in_every_scenario() -> None:
    trace = [Arrival(second, 0, 10) for second in range(120)]

    few, many = (simulate(trace, parse(f"x:failures=0.5,max_attempts=1,consumers={count}")) for count in (1, 100))

    assert few.losses == many.losses
    assert 40 <= few.losses.count("dead") <= 80


def test_dead_letters_fill_a_queue_that_sends_them_nowhere() -> None:
    trace = [Arrival(20 * number, 0, 10) for number in range(5)]
    dies = "x:failures=1,max_attempts=1,max_messages=2"

    assert simulate(trace, parse(dies)).losses == ["dead", "dead", "refused", "refused", "refused"]
    assert simulate(trace, parse(f"{dies},dead_letter_queue=dead")).losses == ["dead"] * 5
    # The third is one too many, and its publisher never publishes again.
    waits_for_ever = simulate(trace, parse(f"{dies},overflow=flow,wait_seconds=999"))
    assert waits_for_ever.losses == ["dead", "dead", "dead", "refused", "refused"]


def test_expired_messages_make_room_wherever_they_go() -> None:
    trace = [Arrival(0, 0, 10), Arrival(1, 0, 10), Arrival(2, 0, 10), Arrival(4.5, 0, 10)]

    for given in ("ttl_seconds=3", "max_ttl_seconds=3,expiry_queue=late"):
        assert simulate(trace, parse(f"x:max_messages=2,{given}")).losses == [
            None,
            "expired",
            "refused",
            "expired",
        ]


def test_what_was_taken_ahead_and_has_expired_is_not_begun() -> None:
    found = simulate(BUSY[:2], parse("x:credit=2,ttl_seconds=5"))

    assert found == ([0, None], [None, "expired"])


def test_a_class_of_which_nothing_was_begun_comes_last() -> None:
    nothing, some = Simulated([None], ["refused"]), Simulated([3.0], [None])
    rows = [*spreads("nothing", nothing, [0]), *spreads("some", some, [0])]

    last = ranked([WaitFigures(*row) for row in rows])[-1]

    assert (last.scenario, last.mean, last.losses) == ("nothing", None, {"refused": 1})


def test_options_that_the_history_cannot_say_are_refused_and_left_out_of_a_recorded_queue() -> None:
    own = QueueOptions(grouping="shared", max_bytes=5, overflow="ring", ttl_seconds=9)

    with pytest.raises(PipelineError, match="grouping is 'shared', and cannot be simulated"):
        Scenario(name="x", queue=QueueOptions(grouping="shared"))
    assert simulated(own) == QueueOptions(ttl_seconds=9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x:consumers=0", "consumers is 0; use more than 0"),
        ("x:colour=red", "there is no setting 'colour'"),
        ("x:consumers=many", "it has to be a number"),
        ("x:kind=sorted", "use priority or fifo"),
        ("x:levels=11", "use 1 to 10"),
        ("x:service=nan", "service is nan"),
        ("x:failures=2", "failures is 2.0; use 0 to 1"),
        ("x:failures=1,max_attempts=0", "no message would ever be done"),
        ("x:overflow=ring", "the queue has no limit"),
        ("x:max_messages=0", "use 1 to"),
        ("x:grouping=shared", "there is no setting 'grouping'"),
        ("x:throttle=10", "throttle is '10'; write AMOUNT/SECONDS"),
        ("x:throttle=0/60", "amount of a rate is 0.0; use a number from"),
        ("x:rate_limit=1/-1", "seconds of a rate is -1.0; use a number from"),
        ("x:concurrency=0 type", "lets 0 run at once; use a number above 0"),
        ("x:concurrency=two", "concurrency is 'two'; write a number"),
        ("x:throttle=1/1 tenant", "key of the limit 'throttle1' is 'tenant'"),
        ("x:fair_by=tenant", "fair_by needs due_order 'keep_place'"),
        ("x:fair_weights=a=1", "fair_weights needs fair_by"),
        ("x:unique=", "unique has no key"),
        ("x:unique_second=drop", "not by which key; add unique=KEY"),
        ("x:unique=type,unique_until=window", "seconds and until='window' belong together"),
        ("x:unique=type,debounce_seconds=5", "debounce_seconds and at_most_seconds belong together"),
    ],
)
def test_a_scenario_that_cannot_be_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        parse(text)


def test_a_scenario_is_read_from_text() -> None:
    assert parse("more:consumers=4,kind=fifo,service=0.5") == Scenario(
        name="more", consumers=4, queue=QueueOptions(kind="fifo"), service=0.5
    )
    assert parse("as it is") == Scenario(name="as it is")


def test_outcomes_are_ranked_by_p95_within_their_class() -> None:
    slow, fast = (Simulated(list(waits), [None] * 3) for waits in ([1, 2, 3], [1, 1, 5]))
    rows = [*spreads("slow", slow, [0, 0, 9]), *spreads("fast", fast, [0, 0, 9])]

    found = {(one.scenario, one.level): one.rank for one in ranked([WaitFigures(*row) for row in rows])}

    assert found[("fast", 0)] == found[("slow", 9)] == 1
    assert found[("slow", 0)] == found[("fast", 9)] == 2
