"""Limits by key: which messages have which key, and what a claim makes of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.claim_limits import MOST_BODY_BYTES, Freed, OpenLimits, Refusal
from django_mq.engine.decisions.keyed_limits import (
    KEY_CHARACTERS,
    PARKED_SECONDS,
    SLOT_SECONDS,
    WAITING_SECONDS,
    Allowed,
    Concurrency,
    KeyedLimit,
    KeyState,
    LimitFacts,
    OpenKeyedLimits,
    Slot,
    Throttle,
    told_apart,
)
from django_mq.engine.decisions.rates import Rate, Used
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE = Rate(1, 10.0)


def message(**given: Any) -> Message:
    return Message(id="1", **given)


def body(value: Any, content_type: str = "application/json") -> Message:
    return message(
        body=value if isinstance(value, bytes) else json.dumps(value).encode(), content_type=content_type
    )


TASK = [[5, "x"], {"tenant": "t"}, {}]
DJANGO_TASK = {"task": "shop.jobs.mail", "args": [5, "x"], "kwargs": {"tenant": "t"}}
LONG = "k" * 10_000_000
KEYS = [
    ({}, message(), ""),
    ({"key": "group"}, message(group="g"), "g"),
    ({"key": "group"}, message(), None),
    ({"key": "type"}, message(type="mail"), "mail"),
    ({"key": "type"}, message(), None),
    ({"key": "header:tenant"}, message(headers={"tenant": "a"}), "a"),
    ({"key": "header:tenant"}, message(headers={"tenant": 17}), "17"),
    ({"key": "header:tenant"}, message(headers={"tenant": None}), None),
    ({"key": "header:tenant"}, message(headers={"tenant": ["a"]}), None),
    ({"key": "header:tenant"}, message(), None),
    ({"type": "mail"}, message(type="sms"), None),
    ({"type": "mail", "key": "group"}, message(type="mail", group="g"), "g"),
    ({"key": "group"}, message(group=LONG), told_apart(LONG)),
    ({"key": "body:tenant"}, body({"tenant": 17}), "17"),
    ({"key": "body:tenant"}, body({"tenant": {}}), None),
    ({"key": "body:tenant"}, body(["tenant"]), None),
    ({"key": "body:tenant"}, body(b"{"), None),
    ({"key": "body:tenant"}, body(b"[" * 50_000), None),
    ({"key": "body:tenant"}, body({"tenant": "x" * MOST_BODY_BYTES}), None),
    ({"key": "body:tenant"}, body({"tenant": 17}, "application/x-msgpack"), None),
    ({"key": "argument:tenant"}, body(TASK), "t"),
    ({"key": "argument:number", "place": 0}, body(TASK), "5"),
    ({"key": "argument:number"}, body(TASK), None),
    ({"key": "argument:number", "place": 7}, body(TASK), None),
    ({"key": "argument:number", "place": 0}, body({"number": 5}), None),
    ({"key": "argument:tenant"}, body(DJANGO_TASK), "t"),
    ({"key": "argument:number", "place": 0}, body(DJANGO_TASK), "5"),
    ({"key": "argument:number", "place": 0}, body({"args": {}, "kwargs": []}), None),
]


@pytest.mark.parametrize(("given", "of", "key"), KEYS)
def test_the_key_comes_from_the_message(given: dict[str, Any], of: Message, key: str | None) -> None:
    assert Throttle(name="api", rate=ONE, **given).key_of(of) == key


def test_keys_that_a_database_would_change_are_told_apart() -> None:
    keys = [
        "a",
        "a ",
        "a\x00",
        "a\\x00",
        "\ud800",
        LONG,
        LONG + "k",
        "k" * KEY_CHARACTERS,
        "k" * KEY_CHARACTERS + "k",
    ]
    stored = [told_apart(key) for key in keys]

    assert len(set(stored)) == len(keys)
    assert all(len(key) <= KEY_CHARACTERS and key == key.rstrip(" ") for key in stored)
    assert all("\x00" not in key and key.encode() for key in stored)


WEIGHTS = [({}, 1.0), ({"cost": 3}, 3.0), ({"cost": 0.5}, 0.5), ({"cost": 0}, 1.0), ({"cost": -2}, 1.0)]
WEIGHTS += [({"cost": 1e308}, 1e9), ({"cost": 1e-320}, 1e-6)]
WEIGHTS += [
    ({"cost": value}, 1.0)  # type: ignore[dict-item]
    for value in ("7", True, None, float("nan"), float("inf"), [3], 10**400)
]


@pytest.mark.parametrize(("headers", "weight"), WEIGHTS)
def test_a_message_weighs_what_its_header_says(headers: dict[str, Any], weight: float) -> None:
    assert Throttle(name="api", rate=ONE, weight="cost").weight_of(message(headers=headers)) == weight


@pytest.mark.parametrize("name", ["", "a b", "n" * 51, None])
def test_a_limit_needs_a_name(name: Any) -> None:
    with pytest.raises(OutOfRange, match="The name of a limit is"):
        Throttle(name=name, rate=ONE)


@pytest.mark.parametrize("key", ["tenant", "header:", "body:", None, 5])
def test_a_limit_of_an_unknown_key_is_refused(key: Any) -> None:
    with pytest.raises(OutOfRange, match="The key of the limit 'api' is"):
        Throttle(name="api", rate=ONE, key=key)


@pytest.mark.parametrize("given", [{"type": None}, {"weight": 5}, {"place": -1}, {"place": True}, {"place": "0"}])
def test_what_a_limit_names_has_the_right_type(given: dict[str, Any]) -> None:
    with pytest.raises(OutOfRange, match=f"The {next(iter(given))} of the limit 'api' is"):
        Throttle(name="api", rate=ONE, **given)


@pytest.mark.parametrize("at_once", [0, -1, 1.5, True, "3", None])
def test_at_least_one_message_runs_at_once(at_once: Any) -> None:
    with pytest.raises(OutOfRange, match="run at once"):
        Concurrency(name="api", at_once=at_once)


def test_some_queues_cannot_have_a_limit() -> None:
    queues = QueueOptions(), QueueOptions(strict=True), QueueOptions(grouping="shared")
    refused = {
        key: [Throttle(name="api", rate=ONE, key=key).problem_in(queue) is not None for queue in queues]
        for key in ("", "group", "header:tenant")
    }
    of_a_type = Throttle(name="api", rate=ONE, type="mail")

    assert refused == {
        "": [False, True, False],
        "group": [False, True, False],
        "header:tenant": [False, True, True],
    }
    assert [of_a_type.problem_in(queue) is not None for queue in queues] == [False, True, True]


class Opened:
    """The limits of one claim, and what they have written."""

    def __init__(
        self, *limits: KeyedLimit, now: float = 0.0, free_slots: int = 1000, ahead: int = 0, **given: Any
    ) -> None:
        known: dict[str, Any] = {"used": {}, "held": {}, "allowed": {}, "running": {}, "waiting": {}} | given
        self.states: dict[Any, KeyState] = {}
        self.slots: list[Slot] = []
        self.limit = OpenKeyedLimits(limits, LimitFacts(now, **known))
        self.limits = OpenLimits[Message]([self.limit], lambda item: item, slots=free_slots, ahead=ahead)

    def write(self, taken: Sequence[Message]) -> None:
        for used in self.limits.writes([((number, 7), item) for number, item in enumerate(taken)]):
            self.states |= used.states
            self.slots += used.slots

    def take(self, *items: Message) -> list[Message]:
        taken = [item for item in items if self.limits.allow(item)]
        self.write(taken)
        return taken


def of_groups(groups: str) -> list[Message]:
    return [message(group=group) for group in groups]


def test_a_claim_takes_what_a_throttle_allows_and_notes_who_waits_until_when() -> None:
    opened = Opened(Throttle(name="api", rate=Rate(1, 10.0, burst=2), key="group"))
    items = of_groups("aaabaa")

    assert opened.take(*items) == [items[0], items[1], items[3]]
    assert [refusal for _, refusal in opened.limits.parked] == [Refusal("api:a", PARKED_SECONDS)] * 3
    assert opened.states == {
        ("api", "a"): KeyState(Used(20.0, 0.0), 10.0),
        ("api", "b"): KeyState(Used(10.0, 0.0), None),
    }
    assert opened.limits.next_seconds == 10.0


def test_what_is_not_leased_has_used_nothing() -> None:
    opened = Opened(Throttle(name="api", rate=ONE, key="group"))
    opened.limit.takes(message(group="a"))
    opened.limit.takes(message(group="b"))
    opened.write([message(group="b")])

    assert opened.states == {("api", "b"): KeyState(Used(10.0, 0.0), None)}


def test_a_rate_limit_drops_what_is_over_it() -> None:
    opened = Opened(Throttle(name="api", rate=Rate(1, 10.0, burst=2), drops=True))
    items = of_groups("abc")

    assert opened.take(*items) == items[:2]
    assert (opened.limits.dropped, opened.limits.parked) == (items[2:], [])
    assert opened.limits.next_seconds is None


def test_so_many_of_a_key_run_at_once_and_each_has_a_slot() -> None:
    opened = Opened(Concurrency(name="slots", at_once=2, key="group"), running={("slots", "a"): 1})
    items = of_groups("aabbb")

    assert opened.take(*items) == [items[0], items[2], items[3]]
    assert Counter((slot.key, slot.message, slot.claim) for slot in opened.slots) == Counter(
        [("a", 0, 7), ("b", 1, 7), ("b", 2, 7)]
    )
    assert {place: state.waiting_until for place, state in opened.states.items()} == {
        ("slots", "a"): WAITING_SECONDS,
        ("slots", "b"): WAITING_SECONDS,
    }
    assert opened.limits.next_seconds == SLOT_SECONDS


@pytest.mark.parametrize(
    ("limit", "taken"),
    [
        (Concurrency(name="slots", at_once=4, key="group"), "aabb"),
        (Concurrency(name="slots", at_once=1, key="group"), "a"),
        (Throttle(name="api", rate=Rate(1, 10.0, burst=6), key="group"), "aaabb"),
        (Throttle(name="api", rate=Rate(1, 10.0), key="group"), "a"),
    ],
)
def test_what_waits_in_memory_leaves_half_of_a_limit_and_parks_nothing(limit: KeyedLimit, taken: str) -> None:
    opened = Opened(limit, free_slots=1, ahead=10)

    assert opened.limits.most == 11
    assert "".join(item.group or "" for item in opened.take(*of_groups("aaaaaabb"))) == taken
    assert (opened.limits.parked, opened.limits.next_seconds) == ([], None)


def test_a_claim_frees_as_many_of_a_waiting_key_as_may_begin() -> None:
    opened = Opened(
        Concurrency(name="slots", at_once=3, key="group"),
        Throttle(name="api", rate=Rate(10, 1.0, burst=2), key="group"),
        now=100.0,
        running={("slots", "a"): 1},
        used={("api", "later"): Used(100.5, 100.0)},
        waiting={("slots", "a"): 0.0, ("api", "a"): 99.0, ("api", "later"): 100.4, ("gone", "x"): 0.0},
    )
    frees = {freed.key: freed.most for freed in opened.limit.frees(5)}

    assert frees == {"slots:a": 2, "api:a": 2, "gone:x": 1000}
    assert opened.limit.frees(0) == [Freed("gone:x", 1000)]
    opened.limit.freed(Freed("slots:a", 2), 1)
    opened.limit.freed(Freed("api:a", 2), 2)
    opened.write([])
    assert {place: state.waiting_until for place, state in opened.states.items()} == {
        ("slots", "a"): None,
        ("api", "a"): 100 + SLOT_SECONDS,
    }


def test_the_next_of_a_waiting_key_is_asked_when_it_may_begin() -> None:
    opened = Opened(
        Throttle(name="api", rate=Rate(10, 1.0), key="group", weight="cost"),
        now=100.0,
        waiting={("api", "a"): 99.9},
    )
    [freed] = opened.limit.frees(5)
    opened.limit.freed(freed, 1)
    opened.take(message(group="a", headers={"cost": 3}))

    assert opened.limits.next_seconds == pytest.approx(0.3)


@pytest.mark.parametrize("until", [1e6, 99.0])
def test_a_waiting_key_is_asked_at_once_when_the_clock_was_set_back(until: float) -> None:
    opened = Opened(Throttle(name="api", rate=ONE), now=100.0, waiting={("api", ""): until})

    assert opened.limit.frees(1) == [Freed("api:", 1)]


def test_a_key_may_have_limits_of_its_own_and_may_be_held() -> None:
    opened = Opened(
        Throttle(name="api", rate=ONE, key="group"),
        Concurrency(name="slots", at_once=1, key="group"),
        now=5.0,
        allowed={("api", "17"): Allowed(Rate(50, 1.0, burst=50)), ("slots", "17"): Allowed(at_once=2)},
        held={("api", "18"): 30.0},
    )
    items = [message(group=key) for key in ("17", "17", "17", "18", "19", "19")]

    assert opened.take(*items) == [items[0], items[1], items[4]]
    assert [refusal.key for _, refusal in opened.limits.parked] == ["slots:17", "api:18", "slots:19"]


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_of_several_limits_all_hold(groups: list[str]) -> None:
    opened = Opened(
        Throttle(name="each", rate=Rate(1, 1.0, burst=3), key="group"),
        Throttle(name="all", rate=Rate(1, 1.0, burst=5)),
        Concurrency(name="at_once", at_once=2, key="group"),
    )

    taken = [item.group for item in opened.take(*of_groups("".join(groups)))]

    assert len(taken) <= 5
    assert all(taken.count(key) <= 2 for key in "abc")


def test_limits_of_one_name_for_several_types_use_a_rate_each() -> None:
    opened = Opened(
        Throttle(name="api", rate=Rate(1, 10.0), type="mail"),
        Throttle(name="api", rate=Rate(1, 1000.0), type="sms", key="type"),
        Throttle(name="api", rate=Rate(1, 1.0, burst=3)),
        now=100.0,
        waiting={("api", "mail"): 100.0, ("api", "gone"): 150.0},
    )
    frees = {freed.key: freed.most for freed in opened.limit.frees(5)}
    items = [message(type=each) for each in ("mail", "mail", "sms", "sms", "other")]

    assert frees == {"api:mail": 1, "api:gone": 1000}
    assert opened.take(*items) == [items[0], items[2], items[4]]
    assert {place[1]: round(state.used.free_at - 100) for place, state in opened.states.items()} == {
        "mail": 10,
        "sms": 1000,
        "": 3,
    }


def test_a_faster_rate_counts_from_the_next_claim_on() -> None:
    used = {("api", ""): Used(3600.0, 0.0)}
    items = [message(), message()]

    assert Opened(Throttle(name="api", rate=Rate(1, 3600.0)), now=2.0, used=used).take(*items) == []
    assert Opened(Throttle(name="api", rate=Rate(1, 1.0)), now=2.0, used=used).take(*items) == [items[0]]


def test_what_waits_for_a_slow_rate_is_asked_when_a_faster_one_lets_it_begin() -> None:
    slow = {("api", ""): Used(3700.0, 100.0)}
    opened = Opened(Throttle(name="api", rate=ONE), now=102.0, used=slow, waiting={("api", ""): 150.0})

    assert opened.limit.frees(5) == []
    assert opened.limits.next_seconds == 8.0

    opened = Opened(Throttle(name="api", rate=ONE), now=110.0, used=slow, waiting={("api", ""): 150.0})
    assert opened.limit.frees(5) == [Freed("api:", 1)]
