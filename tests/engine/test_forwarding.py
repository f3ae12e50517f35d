"""What a bridge sends, in which order, and what becomes of messages by the answers of the broker."""

from __future__ import annotations

from typing import NamedTuple

from django_mq.engine.decisions.forwarding import (
    DECISIONS,
    BrokerAnswer,
    Flights,
    is_given_up,
    pause_after,
    reason_of,
)
from django_mq.engine.decisions.verdict import Verdict


class Item(NamedTuple):
    name: str
    group_key: str | None = None
    queue_name: str = "orders"


A1, A2, A3 = (Item(f"a{number}", "a") for number in (1, 2, 3))
B1 = Item("b1", "b")
FREE1, FREE2 = Item("free1"), Item("free2")


def send_all(flights: Flights[Item], first: int = 1) -> list[str]:
    names = []
    while (item := flights.next()) is not None:
        flights.sent(first + len(names), item)
        names.append(item.name)
    return names


def answered(flights: Flights[Item], tag: int, *, multiple: bool = False) -> list[Item]:
    return [item for _, item in flights.answered(tag, multiple=multiple)]


def test_a_message_of_a_group_waits_until_the_one_before_is_answered() -> None:
    flights = Flights[Item](10)
    flights.offer([A1, A2, B1, FREE1, A3, FREE2])

    assert send_all(flights) == ["a1", "b1", "free1", "free2"]
    assert answered(flights, 1) == [A1]
    assert send_all(flights, 5) == ["a2"]
    assert answered(flights, 4, multiple=True) == [B1, FREE1, FREE2]
    assert send_all(flights, 6) == []
    assert answered(flights, 5) == [A2]
    assert send_all(flights, 6) == ["a3"]
    assert answered(flights, 6) == [A3]
    assert len(flights) == 0


def test_messages_of_a_strict_queue_go_one_after_the_other() -> None:
    flights = Flights[Item](10, lambda queue: queue == "orders")
    flights.offer([FREE1, A1, Item("other", None, "others")])

    assert send_all(flights) == ["free1", "other"]
    assert answered(flights, 1) == [FREE1]
    assert send_all(flights, 3) == ["a1"]


def test_there_are_no_more_on_the_way_than_allowed_and_a_page_waits() -> None:
    flights = Flights[Item](2)
    assert flights.credit() == 8
    flights.offer([FREE1, FREE2, A1])

    assert send_all(flights) == ["free1", "free2"]
    assert (flights.credit(), flights.on_way, len(flights)) == (5, 2, 3)


def test_after_a_lost_connection_everything_comes_back() -> None:
    flights = Flights[Item](2)
    flights.offer([A1, A2, FREE1, FREE2])
    send_all(flights)

    back, blamed = flights.lost()

    assert sorted(each.name for each in back) == ["a1", "a2", "free1", "free2"]
    assert blamed is None
    assert len(flights) == 0


def test_a_message_that_closes_the_channel_is_found_by_sending_alone() -> None:
    flights = Flights[Item](10)
    flights.offer([FREE1, FREE2])
    send_all(flights)
    back, blamed = flights.lost(by_message=True)
    assert (back, blamed) == ([FREE1, FREE2], None)

    flights.offer(back)
    assert send_all(flights) == ["free1"]
    assert answered(flights, 1) == [FREE1]
    assert send_all(flights, 2) == ["free2"]
    assert flights.lost(by_message=True) == ([], FREE2)

    flights.offer([A1, B1])
    assert send_all(flights) == ["a1", "b1"]


def test_what_waits_of_a_paused_queue_is_withdrawn_and_the_rest_goes_on() -> None:
    flights = Flights[Item](1)
    flights.offer([A1, A2, FREE1, Item("other", None, "others")])
    send_all(flights)

    assert flights.withdrawn({"orders"}) == [FREE1, A2]
    assert answered(flights, 1) == [A1]
    assert send_all(flights, 2) == ["other"]
    flights.answered(2)
    flights.offer([A2])
    assert send_all(flights, 3) == ["a2"]


def test_only_what_the_broker_refuses_is_dead_and_the_rest_is_not_charged() -> None:
    decided = {answer: (each.verdict, each.counted) for answer, each in DECISIONS.items()}

    assert decided == {
        BrokerAnswer.CONFIRMED: (Verdict.FORWARD, False),
        BrokerAnswer.RETURNED: (Verdict.DEAD, True),
        BrokerAnswer.REFUSED: (Verdict.DEAD, True),
        BrokerAnswer.NOT_NOW: (Verdict.RELEASE, False),
        BrokerAnswer.LOST: (Verdict.RELEASE, False),
    }
    assert (
        reason_of(BrokerAnswer.RETURNED, "rabbit", "NO_ROUTE (312)")
        == "returned by the bridge rabbit: NO_ROUTE (312)"
    )


def test_a_broker_is_given_up_after_three_tries_or_when_it_is_blocked_for_too_long() -> None:
    cases = ((0, 0, False), (2, 30, False), (3, 0, True), (0, 30.1, True))
    assert [is_given_up(failures, blocked, 30) for failures, blocked, _ in cases] == [each[2] for each in cases]


def test_the_pauses_grow_to_the_longest_one() -> None:
    assert [pause_after(failures, 4) for failures in (1, 2, 3, 4, 5, 5000)] == [0.5, 1, 2, 4, 4, 4]
