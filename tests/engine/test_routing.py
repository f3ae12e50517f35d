"""A binding's pattern and a routing key: AMQP's direct, topic and fanout."""

from __future__ import annotations

from itertools import product

import pytest

from django_mq.engine.decisions.routing import (
    Exchange,
    Route,
    exchange_of,
    headers_selector,
    matches,
    queues_matching,
    queues_reached,
)
from django_mq.engine.message import Message
from django_mq.errors import ConfigurationError


@pytest.mark.parametrize(
    ("pattern", "key", "taken"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.bc", False),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("*", "", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("#", "", True),
        ("#", "a", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "ab", False),
        ("#.c", "c", True),
        ("#.c", "a.b.c", True),
        ("#.c", "a.b.cd", False),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.b.b.c", True),
        ("a.#.c", "a.b", False),
        ("#.b.#", "b", True),
        ("#.b.#", "a.b.c", True),
        ("#.b.#", "a.c", False),
        ("*.#", "a", True),
        ("*.#", "", False),
        ("#.*", "a", True),
        ("#.#", "", True),
        ("#.#", "a.b", True),
        ("a+b", "a+b", True),
        ("a+b", "aab", False),
        ("a.b", "a\nb", False),
        ("", "", True),
    ],
)
def test_a_topic_pattern_takes_whole_words(pattern: str, key: str, taken: bool) -> None:
    assert matches("topic", pattern, key) is taken


def by_definition(pattern: list[str], words: list[str]) -> bool:
    """Whether the pattern matches, tried in every way."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return by_definition(pattern[1:], words) or (bool(words) and by_definition(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and by_definition(pattern[1:], words[1:])


def test_a_topic_pattern_matches_what_the_definition_says() -> None:
    patterns = [list(words) for count in range(5) for words in product(("a", "ab", "*", "#"), repeat=count)]
    keys = [list(words) for count in range(5) for words in product(("a", "ab", "b"), repeat=count)]

    wrong = [
        (pattern, key)
        for pattern in patterns
        for key in keys
        if matches("topic", ".".join(pattern), ".".join(key)) is not by_definition(pattern, key)
    ]

    assert wrong == []


def test_a_pattern_of_many_wildcards_does_not_try_every_way_to_cut_the_key() -> None:
    # Backtracking would take longer than the suite may.
    assert not matches("topic", "#.a." * 30 + "z", ".".join("a" * 100))


def test_a_direct_pattern_is_taken_literally() -> None:
    assert matches("direct", "a.*", "a.*")
    assert not matches("direct", "a.*", "a.b")


def test_fanout_takes_everything() -> None:
    assert matches("fanout", "ignored", "anything")


def test_a_queue_with_several_bindings_that_match_is_named_once() -> None:
    routes = [Route("topic", "#", "all"), Route("topic", "*.error", "all"), Route("direct", "b.info", "other")]

    assert queues_matching(routes, "a.error", unread) == ["all"]


def unread() -> Message:
    raise AssertionError("no binding has a selector")


def queues_for(selector: str, **headers: object) -> list[str]:
    """Return the queues of a headers exchange with one binding to the queue "some"."""
    return queues_matching(
        [Route("headers", "", "some", selector)], "any", lambda: Message(id="1", headers=headers)
    )


def test_a_selector_chooses_among_the_messages_that_the_pattern_takes() -> None:
    routes = [
        Route("topic", "order.*", "urgent", "priority > 5 AND region = 'eu'"),
        Route("topic", "order.*", "all"),
        Route("topic", "bill.*", "bills", "priority > 0"),
    ]
    message = Message(id="1", headers={"priority": 7, "region": "eu"})

    assert queues_matching(routes, "order.new", lambda: message) == ["urgent", "all"]
    assert queues_matching(routes, "order.new", lambda: Message(id="2")) == ["all"]


def test_a_second_binding_of_a_queue_is_asked_when_the_first_refuses() -> None:
    routes = [Route("direct", "a", "some", "size > 9"), Route("fanout", "", "some", "")]

    assert queues_matching(routes, "a", lambda: Message(id="1")) == ["some"]


@pytest.mark.parametrize(
    ("arguments", "headers", "taken"),
    [
        ({}, {"region": "us"}, True),
        ({"region": "eu", "size": 3}, {"region": "eu", "size": 3}, True),
        ({"region": "eu", "size": 3}, {"region": "eu"}, False),
        ({"x-match": "all", "region": "eu"}, {"region": "us"}, False),
        ({"x-match": "any", "region": "eu", "size": 3}, {"size": 3}, True),
        ({"x-match": "any", "region": "eu", "size": 3}, {"size": 4}, False),
        ({"vip": True}, {"vip": True}, True),
        ({"vip": True}, {"vip": False}, False),
        ({"seen": None}, {"seen": "yes"}, True),
        ({"seen": None}, {}, False),
        ({"my-region": "eu", 'a"b': 1, "and": "or"}, {"my-region": "eu", 'a"b': 1, "and": "or"}, True),
        ({"name": "O'Neill"}, {"name": "O'Neill"}, True),
        ({"weight": 1.5, "debt": -2}, {"weight": 1.5, "debt": -2}, True),
    ],
)
def test_the_arguments_of_amqp_mean_the_same_as_their_selector(
    arguments: dict[str, object], headers: dict[str, object], taken: bool
) -> None:
    assert queues_for(headers_selector(arguments), **headers) == (["some"] if taken else [])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"x-match": "some", "region": "eu"}, "x-match is 'some'; use 'all' or 'any'"),
        ({"x-match": ["all"]}, r"x-match is \['all'\]"),
        ({"region": ["eu"]}, r"'region' has the value \['eu'\]"),
    ],
)
def test_arguments_that_no_selector_can_express_are_refused(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        headers_selector(arguments)


def routes(kind: str, **queues: str) -> tuple[Route, ...]:
    """Bindings of a type of exchange: the pattern of each queue."""
    return tuple(Route(kind, pattern, queue) for queue, pattern in queues.items())


#: "news" passes sports on to "world", which passes all back; "news" has an alternate exchange.
EXCHANGES = {
    "news": Exchange(
        "news",
        "topic",
        alternate="rest",
        routes=routes("topic", local="local.#"),
        exchanges=routes("topic", world="*.sports", missing="*.sports"),
    ),
    "world": Exchange(
        "world", "fanout", transient=routes("fanout", ear="", local=""), exchanges=routes("fanout", news="")
    ),
    "rest": Exchange("rest", "direct", alternate="trash", routes=routes("direct", odd="odd")),
    "trash": Exchange("trash", "fanout", alternate="news", routes=routes("fanout", bin="")),
}


@pytest.mark.parametrize(
    ("key", "durable", "transient"),
    [
        ("local.news", ["local"], []),
        ("local.sports", ["local"], ["ear"]),
        ("a.sports", [], ["ear", "local"]),
        ("odd", ["odd"], []),
        ("none", ["bin"], []),
    ],
)
def test_a_message_passes_each_exchange_once(key: str, durable: list[str], transient: list[str]) -> None:
    reached = queues_reached(EXCHANGES["news"], key, Message, EXCHANGES.get)

    assert reached == (durable, transient)


@pytest.mark.parametrize(
    ("name", "declared", "bound", "kind"),
    [
        ("news", ("topic", ""), "fanout", "topic"),
        ("news", None, "fanout", "fanout"),
        ("news", None, None, None),
        ("amq.match", None, None, "headers"),
    ],
)
def test_an_exchange_has_the_type_it_was_declared_with_or_that_of_its_bindings(
    name: str, declared: tuple[str, str] | None, bound: str | None, kind: str | None
) -> None:
    found = exchange_of(name, declared, routes=routes(bound, queue="") if bound else ())

    assert (found and found.type) == kind
