"""Throttles: which messages have which key, and what a claim makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.claim_limits import OpenLimits, Refusal
from django_mq.engine.decisions.keyed_rates import KEY_CHARACTERS, OpenThrottles, Throttle
from django_mq.engine.decisions.rates import Rate, Used
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.errors import OutOfRange

ONE = Rate(1, 10.0)


def message(**given: Any) -> Message:
    return Message(id="1", **given)


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
    ({"key": "group"}, message(group="k" * 10_000_000), "k" * KEY_CHARACTERS + "… (10000000)"),
]


@pytest.mark.parametrize(("given", "of", "key"), KEYS)
def test_the_key_comes_from_the_message(given: dict[str, str], of: Message, key: str | None) -> None:
    assert Throttle("api", ONE, **given).key_of(of) == key


WEIGHTS = [({}, 1.0), ({"cost": 3}, 3.0), ({"cost": 0.5}, 0.5), ({"cost": 0}, 1.0), ({"cost": -2}, 1.0)]
WEIGHTS += [({"cost": value}, 1.0) for value in ("7", True, None, float("nan"), float("inf"), [3])]  # type: ignore[dict-item]


@pytest.mark.parametrize(("headers", "weight"), WEIGHTS)
def test_a_message_weighs_what_its_header_says(headers: dict[str, Any], weight: float) -> None:
    assert Throttle("api", ONE, weight="cost").weight_of(message(headers=headers)) == weight


@pytest.mark.parametrize("given", [{"name": ""}, {"name": "a b"}, {"name": "n" * 51}, {"name": None}])
def test_a_throttle_needs_a_name(given: dict[str, Any]) -> None:
    with pytest.raises(OutOfRange, match="The name of a throttle is"):
        Throttle(**{"name": "api", "rate": ONE} | given)


@pytest.mark.parametrize("key", ["tenant", "header:", None, 5])
def test_a_throttle_of_an_unknown_key_is_refused(key: Any) -> None:
    with pytest.raises(OutOfRange, match="The key of the throttle 'api' is"):
        Throttle("api", ONE, key)


def test_some_queues_cannot_have_a_throttle() -> None:
    queues = QueueOptions(), QueueOptions(strict=True), QueueOptions(grouping="shared")
    refused = {
        key: [Throttle("api", ONE, key).problem_in(queue) is not None for queue in queues]
        for key in ("", "group", "header:tenant")
    }

    assert refused == {
        "": [False, True, False],
        "group": [False, True, False],
        "header:tenant": [False, True, True],
    }


def opened(*throttles: Throttle, now: float = 0.0, **given: Any) -> tuple[OpenThrottles, dict[Any, Used]]:
    written: dict[Any, Used] = {}
    known = {"used": {}, "held": {}, "exceptions": {}} | given
    return OpenThrottles(throttles, now=now, **known, write=written.update), written


def test_a_claim_takes_what_a_throttle_allows_and_says_how_long_the_rest_waits() -> None:
    limit, written = opened(Throttle("api", Rate(1, 10.0, burst=2), "group"))
    limits = OpenLimits[Message]([limit], lambda item: item)
    items = [message(group=group) for group in "aaabaa"]

    taken = [item for item in items if limits.allow(item)]
    limits.write(list(enumerate(taken)))

    assert taken == [items[0], items[1], items[3]]
    assert [refusal for _, refusal in limits.refused] == [Refusal("api:a", 10.0)] * 3
    assert written == {("api", "a"): Used(20.0, 0.0), ("api", "b"): Used(10.0, 0.0)}


def test_what_is_not_leased_has_used_nothing() -> None:
    limit, written = opened(Throttle("api", ONE, "group"))
    limit.takes(message(group="a"))
    limit.takes(message(group="b"))
    limit.writes([(2, message(group="b"))])

    assert written == {("api", "b"): Used(10.0, 0.0)}


def test_a_key_may_have_a_rate_of_its_own_and_may_be_held() -> None:
    given = {"exceptions": {("api", "17"): Rate(50, 1.0, burst=50)}, "held": {("api", "18"): 30.0}}
    limit, _ = opened(Throttle("api", ONE, "group"), now=5.0, **given)
    for key in ("17", "18", "19"):
        if limit.refuses(message(group=key)) is None:
            limit.takes(message(group=key))

    found = [limit.refuses(message(group=key)) for key in ("17", "18", "19")]
    assert found == [None, Refusal("api:18", 25.0), Refusal("api:19", 10.0)]


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_of_several_throttles_all_hold(groups: list[str]) -> None:
    throttles = Throttle("each", Rate(1, 1.0, burst=3), "group"), Throttle("all", Rate(1, 1.0, burst=5))
    limits = OpenLimits[Message]([opened(*throttles)[0]], lambda item: item)

    taken = [item.group for item in (message(group=group) for group in groups) if limits.allow(item)]

    assert len(taken) <= 5
    assert all(taken.count(key) <= 3 for key in "abc")
