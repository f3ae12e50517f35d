"""Where messages go at their end, by each reason, and what x-death says of their way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from django_mq.engine.decisions.dead_letters import (
    EXPIRED,
    MAXLEN,
    REJECTED,
    Departure,
    Dying,
    cycles,
    departure,
)
from django_mq.engine.decisions.routing import Exchange, Route, address_in
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions

AT = datetime(2031, 1, 1, 12, tzinfo=UTC)
EXCHANGES = {
    "topic": Exchange(
        "topic",
        "topic",
        routes=(
            Route("topic", "#", "all"),
            Route("topic", "work", "by queue"),
            Route("topic", "key", "by key"),
            Route("topic", "#", "work"),
        ),
    ),
    "via": Exchange("via", "fanout", exchanges=(Route("fanout", "", "topic"),)),
}


def leaving(options: dict[str, Any], reason: str, headers: Any = None, properties: Any = None) -> Departure | None:
    dying = Dying(queue="work", headers=headers or {}, properties=properties or {}, attempts=1, cause="no", at=AT)
    return departure(QueueOptions(**options), reason, dying, EXCHANGES.get, lambda: Message(id="m"))


def queues(*given: Any) -> tuple[str, ...] | None:
    found = leaving(*given)
    return None if found is None else found.queues


DEFAULT = {"dead_letter_exchange": "amq.default"}


@pytest.mark.parametrize(
    ("options", "rejected", "expired", "dropped"),
    [
        ({}, None, None, None),
        ({"dead_letter_queue": "dead"}, ("dead",), None, None),
        ({"expiry_queue": "late"}, None, ("late",), None),
        ({"dead_letter_queue": "dead", "expiry_queue": "late"}, ("dead",), ("late",), None),
        ({"dead_letter_exchange": "unknown"}, (), (), ()),
        ({**DEFAULT, "dead_letter_routing_key": "dead"}, ("dead",), ("dead",), ("dead",)),
        (DEFAULT, (), (), ()),  # the routing key is its own queue
        ({"dead_letter_exchange": "dead", "dead_letter_routing_key": "dead"}, ("dead",), ("dead",), ("dead",)),
        *(({"dead_letter_exchange": name}, *[("all", "by queue")] * 3) for name in ("topic", "via")),
    ],
    ids=str,
)
def test_where_a_message_goes_by_each_reason(
    options: dict[str, Any], rejected: Any, expired: Any, dropped: Any
) -> None:
    assert [queues(options, reason) for reason in (REJECTED, EXPIRED, MAXLEN)] == [rejected, expired, dropped]


@pytest.mark.parametrize(
    ("own", "properties", "wanted"),
    [
        ("", {}, "by queue"),
        ("key", {}, "by key"),
        ("", {"delivery_info": {"routing_key": "key"}}, "by key"),
        ("", {"delivery_info": {"routing_key": "key", "queue": "other"}}, "by queue"),
        ("", {"delivery_info": {"routing_key": 7}}, "by queue"),
        ("", {"delivery_info": "odd"}, "by queue"),
    ],
)
def test_the_routing_key_of_a_dead_letter(own: str, properties: dict[str, Any], wanted: str) -> None:
    options = {"dead_letter_exchange": "topic", "dead_letter_routing_key": own}

    assert queues(options, REJECTED, {}, properties) == ("all", wanted)


@pytest.mark.parametrize(
    ("options", "reason", "is_kept"),
    [
        ({"dead_letter_queue": "dead"}, REJECTED, True),
        ({"expiry_queue": "late"}, EXPIRED, False),
        ({"dead_letter_exchange": "topic"}, EXPIRED, True),
        ({"dead_letter_exchange": "topic"}, MAXLEN, True),
    ],
)
def test_what_no_queue_takes_stays_unless_an_expiry_queue_refuses_it(
    options: dict[str, Any], reason: str, is_kept: bool
) -> None:
    found = leaving(options, reason)

    assert found is not None
    assert found.is_kept is is_kept


def test_the_latest_death_comes_first_and_counts() -> None:
    options = {"dead_letter_queue": "dead"}
    older = {"queue": "late", "reason": "expired", "count": 4}
    again = {"queue": "work", "reason": "rejected", "count": 2, "time": "then", "exchange": "shop"}

    found = leaving(options, REJECTED, {"x-death": [older, again], "x-first-death-queue": "late"})

    assert found is not None
    assert found.headers["x-death"] == [again | {"count": 3}, older]
    assert found.headers["x-first-death-queue"] == "late"


@pytest.mark.parametrize("odd", [None, 7, "text", [], [7], {"queue": "work"}, [["queue", "work"]]], ids=repr)
def test_a_header_that_no_broker_has_written_does_no_harm(odd: Any) -> None:
    found = leaving({"dead_letter_queue": "dead"}, REJECTED, {"x-death": odd})

    assert found is not None
    [death] = found.headers["x-death"]
    assert (death["queue"], death["count"], death["time"]) == ("work", 1, "2031-01-01T12:00:00+00:00")


def deaths(*entries: tuple[str, str, Any]) -> dict[str, Any]:
    return {"x-death": [{"queue": queue, "reason": reason, "count": count} for queue, reason, count in entries]}


@pytest.mark.parametrize(
    ("reason", "headers", "goes"),
    [
        (EXPIRED, deaths(("other", "expired", 1)), True),
        (EXPIRED, deaths(("back", "expired", 1)), False),
        (EXPIRED, deaths(("other", "expired", 1), ("back", "maxlen", 1)), False),
        (MAXLEN, deaths(("back", "expired", 1)), False),
        (EXPIRED, deaths(("back", "rejected", 1)), True),
        (EXPIRED, deaths(("other", "rejected", 1), ("back", "expired", 1)), True),
        (EXPIRED, deaths(("back", "expired", 2), ("other", "rejected", 1)), False),
        (REJECTED, deaths(("work", "rejected", 2)), True),
        (REJECTED, deaths(("work", "rejected", 3)), False),
        (REJECTED, deaths(("work", "expired", 9), ("back", "rejected", 9)), True),
        (REJECTED, deaths(("work", "rejected", "many")), True),
    ],
    ids=str,
)
def test_a_message_does_not_go_round_for_ever(reason: str, headers: dict[str, Any], goes: bool) -> None:
    options = {**DEFAULT, "dead_letter_routing_key": "back", "max_dead_letter_cycles": 3}

    assert queues(options, reason, headers) == (("back",) if goes else ())


def test_a_message_that_comes_back_is_no_dead_letter_there() -> None:
    options = {**DEFAULT, "dead_letter_routing_key": "back"}
    found = leaving(options, EXPIRED, deaths(("back", "rejected", 1)))
    new = leaving(options, EXPIRED)

    assert found is not None
    assert new is not None
    assert (found.returns, new.returns) == ({"back"}, set())


@pytest.mark.parametrize(
    ("properties", "address"),
    [
        ({}, ("", "work")),
        ({"delivery_info": {"exchange": "shop", "routing_key": "paid"}}, ("shop", "paid")),
        ({"delivery_info": {"exchange": "dlx", "routing_key": "dead", "queue": "work"}}, ("dlx", "dead")),
        ({"delivery_info": {"exchange": "dlx", "routing_key": "dead", "queue": "dead"}}, ("", "work")),
        ({"delivery_info": {"exchange": None, "routing_key": ""}}, ("", "work")),
        ({"delivery_info": [1]}, ("", "work")),
    ],
    ids=str,
)
def test_how_a_message_came_to_its_queue(properties: dict[str, Any], address: tuple[str, str]) -> None:
    assert address_in(properties, "work") == address


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"a": {"dead_letter_queue": "b"}, "b": {"dead_letter_queue": "c"}, "c": {}}, []),
        ({"a": {"dead_letter_queue": "b"}, "b": {"expiry_queue": "a"}}, [("a", "b", "a")]),
        (
            {"work": {"dead_letter_exchange": "topic"}, "all": {"dead_letter_queue": "work"}},
            [("all", "work", "all")],
        ),
        (
            {"work": {"dead_letter_exchange": "via"}, "by key": {**DEFAULT, "dead_letter_routing_key": "work"}},
            [("by key", "work", "by key")],
        ),
        ({"work": {"dead_letter_exchange": "topic"}}, []),  # itself
        (
            {
                "a": {**DEFAULT, "dead_letter_routing_key": "b"},
                "b": {"dead_letter_queue": "c", "expiry_queue": "a"},
            }
            | {"c": {**DEFAULT, "dead_letter_routing_key": "b"}},
            [("a", "b", "a"), ("b", "c", "b")],
        ),
    ],
    ids=str,
)
def test_the_cycles_of_queues_are_found(options: dict[str, dict[str, Any]], found: list[tuple[str, ...]]) -> None:
    given = {name: QueueOptions(**own) for name, own in options.items()}

    assert cycles(given, EXCHANGES.get) == found
