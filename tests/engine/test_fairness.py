"""Fairness: the keys of a queue share by weight, and a key waits for one message of each other key at most."""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest

from django_mq.engine.decisions.fairness import (
    FIRST,
    HEAD,
    LAST,
    STEP,
    Fairness,
    fairness_of,
    is_placed,
    present_place,
    problems_of,
    stored_key,
    turns,
)
from django_mq.engine.decisions.places import ORDINARY_PLACE
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions


class Level:
    """One level of a fair queue, with one publisher at a time."""

    def __init__(self, weights: dict[str, float] | None = None) -> None:
        self.weights = weights or {}
        self.finish: defaultdict[str, int] = defaultdict(lambda: FIRST)
        self.seen = FIRST
        self.ready: list[tuple[int, int, bool, str]] = []
        self.arrivals = 0

    def publish(self, key: str, number: int = 1) -> list[int]:
        first: list[tuple[int, int, bool, str]] = []
        while self.ready and len(first) < HEAD and (not first or first[-1][2]):
            first.append(heappop(self.ready))
        head = [(place, back) for place, _, back, _ in first if place >= self.seen]
        for each in first:
            heappush(self.ready, each)
        latest = max(self.finish.values(), default=FIRST)
        self.seen = present_place(head, self.seen, latest)
        weight = self.weights.get(key, 1.0)
        places, self.finish[key] = turns(number, weight, present=self.seen, finish=self.finish[key])
        for place in places:
            self.arrivals += 1
            heappush(self.ready, (place, self.arrivals, False, key))
        return places

    def claim(self) -> tuple[int, int, bool, str]:
        return heappop(self.ready)

    def give_back(self, taken: tuple[int, int, bool, str]) -> None:
        heappush(self.ready, (*taken[:2], True, taken[3]))


def test_a_message_waits_for_one_message_of_each_other_key_at_most() -> None:
    for seed in range(3):
        random, level = Random(seed), Level()
        level.publish("noisy", 100_000)
        waiting: dict[int, int] = {}
        longest = claims = 0
        quiet = [f"tenant {number}" for number in range(19)]
        waits_for: dict[str, int] = {}
        while claims < 20_000:
            for key in quiet:
                if key not in waits_for and random.random() < 0.01:
                    level.publish(key)
                    waits_for[key] = level.arrivals
                    waiting[level.arrivals] = claims
            _, arrival, _, key = level.claim()
            claims += 1
            if arrival in waiting:
                longest = max(longest, claims - waiting.pop(arrival))
                del waits_for[key]

        assert 1 < longest <= 20


@pytest.mark.parametrize("at_once", [True, False])
def test_keys_share_by_weight(at_once: bool) -> None:
    random, level = Random(0), Level({"two": 2.0, "four": 4.0})
    keys = ["one", "two", "four"]
    for key in keys:
        level.publish(key, 10_000 if at_once else 10)
    claimed, published = Counter[str](), Counter(dict.fromkeys(keys, 10))
    for _ in range(7000):
        claimed[level.claim()[3]] += 1
        for key in () if at_once else random.sample(keys, 3):  # each key has always enough
            if published[key] - claimed[key] < 10:
                published[key] += len(level.publish(key, random.randint(1, 30)))

    assert {key: claimed[key] for key in keys} == pytest.approx({"one": 1000, "two": 2000, "four": 4000}, rel=0.05)


def test_the_messages_of_a_key_stay_in_order() -> None:
    random, level, places = Random(1), Level({"a": 0.01, "b": 100.0}), defaultdict[str, list[int]](list)
    for _ in range(3000):
        if level.ready and random.random() < 0.6:
            level.claim()
        else:
            key = random.choice("abcd")
            places[key] += level.publish(key, random.randint(1, 5))

    for mine in places.values():
        assert mine == sorted(set(mine))
        assert all(FIRST <= place <= LAST and is_placed(place) for place in mine)


def test_a_key_that_was_idle_begins_at_the_present_place() -> None:
    level = Level()
    level.publish("busy", 1000)
    taken = [level.claim() for _ in range(500)]
    head = level.ready[0][0]

    assert level.publish("idle") == [head]

    level.give_back(taken[0])  # it comes back far behind: new messages do not join it

    assert level.publish("another") == [head]


def test_nobody_has_an_advantage_from_a_time_before_the_level_was_empty() -> None:
    level = Level()
    level.publish("busy", 1000)
    while level.ready:
        level.claim()
    idle, busy = level.publish("idle", 10), level.publish("busy", 10)

    assert idle == busy


def test_the_present_place_never_goes_back() -> None:
    many_back = [(place, True) for place in range(HEAD)]
    table = [
        ([(5, False)], 3, 9, 5),
        ([(5, True), (8, False)], 3, 9, 8),
        ([(5, True)], 3, 9, 9),
        ([], 3, 9, 9),
        ([], 30, 9, 30),
        ([], FIRST, FIRST, FIRST),
        (many_back, 0, 90, HEAD - 1),
    ]
    for head, seen, latest, expected in table:
        assert present_place(head, seen, latest) == expected >= seen, (head, seen, latest)


def test_publishers_at_the_same_time_leave_a_place_to_each_other() -> None:
    single = [turns(1, 2.0, present=FIRST, ahead=ahead) for ahead in range(50)]
    assert [each.places[0] for each in single] == turns(50, 2.0, present=FIRST).places
    assert max(each.finish for each in single) == turns(50, 2.0, present=FIRST).finish

    batches = [turns(1000, 1.0, present=FIRST, ahead=ahead) for ahead in range(4)]
    within = [sum(place < FIRST + 600 * STEP for place in each.places) for each in batches]
    assert within == [600, 300, 200, 150]


def test_places_end_before_the_ordinary_place() -> None:
    places, finish = turns(3, 0.01, present=LAST - 5)
    assert places == [LAST - 5, LAST, LAST]
    assert finish == LAST < ORDINARY_PLACE


def test_the_key_is_the_text_of_the_header() -> None:
    fair = fairness_of("tenant", "acme = 4\n\n 17=0.5\nnonsense\na=b=2")
    assert fair == Fairness("tenant", {"acme": 4.0, "17": 0.5, "a=b": 2.0})
    for value, key in [
        ("acme", "acme"),
        (17, "17"),
        (True, "true"),
        (None, ""),
        ([1], ""),
        ("x" * 10**7, "x" * 10**7),
    ]:
        assert fair.key_of(Message(id="1", headers={"tenant": value})) == key
    assert fair.key_of(Message(id="1")) == ""
    assert (fair.weight_of("acme"), fair.weight_of("17"), fair.weight_of("other")) == (4.0, 0.5, 1.0)
    assert len({stored_key(key) for key in ("", "a", "A", "a ", "\ud800")}) == 5


def test_a_line_that_says_no_weight_is_a_problem() -> None:
    assert list(problems_of("acme=4\nb=0.01\nc=100\n")) == []
    for line in ("acme", "acme=", "acme=0", "acme=-1", "acme=101", "acme=nan", "acme=inf", "acme=4x"):
        [problem] = problems_of(f"a=1\n{line}")
        assert repr(line) in problem or line in problem


@pytest.mark.parametrize(
    "given",
    [
        {"due_order": "due_first"},
        {"kind": "fifo", "sort_key": "deadline"},
        {"kind": "last_value", "last_value_key": "k"},
        {"max_messages": 5, "overflow": "ring"},
        {"fair_by": "", "fair_weights": "acme=4"},
        {"fair_weights": "acme=0"},
    ],
    ids=str,
)
def test_contradictions_are_refused(given: dict[str, Any]) -> None:
    fair = {"fair_by": "tenant", "due_order": "keep_place"}
    assert list(QueueOptions(**fair).contradictions()) == []
    [problem] = QueueOptions(**fair | given).contradictions()
    assert "fair" in problem
