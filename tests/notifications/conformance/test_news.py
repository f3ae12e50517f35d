"""What every notifier promises that registers idle sessions: k messages wake at most k sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.notifications.base import News
from tests.notifications.conformance.test_hints import wait_for
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from django_mq.notifications.base import Listener, Notifier, Wake
    from tests.notifications.conformance.conftest import Ears

ONE = {"orders": News(messages=1)}
#: They count the news that found no idle session. With the others a session that registers anew always looks.
COUNTING = pytest.mark.parametrize("notifier", ["local", "redis"], indirect=True)


@pytest.fixture
def three(ears: Ears) -> list[tuple[Listener, Wake]]:
    """Three sessions, interested one after the other."""
    sessions = [ears.listen(["q:orders", "q:witness"]) for _ in range(3)]
    for listener, _ in sessions:
        listener.register_idle(["orders"])
    return sessions


def settled(notifier: Notifier, sessions: list[tuple[Listener, Wake]]) -> list[bool]:
    """Which sessions were notified, when all earlier hints have arrived."""
    seen: list[set[str]] = [set() for _ in sessions]
    notifier.send(["q:witness"])
    for number, (_, wake) in enumerate(sessions):
        while "q:witness" not in seen[number]:
            assert wake.wait(PATIENCE_SECONDS)
            seen[number] |= wake.take_topics()
    return ["n:orders" in topics for topics in seen]


def test_one_message_wakes_one_session_that_which_waited_longest(
    notifier: Notifier, three: list[tuple[Listener, Wake]]
) -> None:
    notifier.announce(ONE)

    assert settled(notifier, three) == [True, False, False]


def test_who_was_told_is_not_told_again_before_it_is_interested_again(
    notifier: Notifier, three: list[tuple[Listener, Wake]]
) -> None:
    notifier.announce(ONE)
    notifier.announce(ONE)
    assert settled(notifier, three) == [True, True, False]

    three[0][0].register_idle(["orders"])
    notifier.announce({"orders": News(messages=2)})

    assert settled(notifier, three) == [True, False, True]


def test_many_messages_wake_no_more_than_there_are(notifier: Notifier, three: list[tuple[Listener, Wake]]) -> None:
    notifier.announce({"orders": News(messages=2)})

    assert settled(notifier, three) == [True, True, False]


def test_a_session_of_higher_priority_is_told_first(notifier: Notifier, ears: Ears) -> None:
    sessions = [ears.listen(["q:orders", "q:witness"]) for _ in range(3)]
    for (listener, _), priority in zip(sessions, (0, -1, 5), strict=True):
        listener.register_idle(["orders"], priority=priority)

    notifier.announce({"orders": News(messages=2)})

    assert settled(notifier, sessions) == [True, False, True]


def test_the_session_that_has_been_idle_longest_is_told_first(
    notifier: Notifier, three: list[tuple[Listener, Wake]]
) -> None:
    for listener, wake in [*three, *three]:
        notifier.announce(ONE)
        wait_for(wake, "n:orders")
        listener.register_idle(["orders"])


def test_who_withdraws_is_not_told(notifier: Notifier, three: list[tuple[Listener, Wake]]) -> None:
    three[0][0].withdraw()

    notifier.announce(ONE)

    assert settled(notifier, three) == [False, True, False]


def test_who_is_gone_is_passed_over(notifier: Notifier, three: list[tuple[Listener, Wake]]) -> None:
    three[0][0].close()

    notifier.announce(ONE)

    wait_for(three[1][1], "n:orders")


def test_who_is_told_of_one_queue_is_not_counted_on_in_another(notifier: Notifier, ears: Ears) -> None:
    sessions = [ears.listen(["q:orders", "q:mails", "q:witness"]) for _ in range(2)]
    for listener, _ in sessions:
        listener.register_idle(["orders", "mails"])

    notifier.announce({"mails": News(messages=1)})
    notifier.announce(ONE)

    assert settled(notifier, sessions) == [False, True]


def test_whoever_becomes_interested_learns_that_news_found_nobody(
    notifier: Notifier, three: list[tuple[Listener, Wake]]
) -> None:
    for listener, _ in three:
        listener.register_idle(["orders"])
    notifier.announce({"orders": News(messages=3)})
    settled(notifier, three)

    notifier.announce(ONE)

    assert three[0][0].register_idle(["orders"]).missed
    assert not three[0][0].register_idle(["orders"]).missed
    assert three[1][0].register_idle(["orders"]).missed


def test_the_first_interest_asks_for_a_look(notifier: Notifier, ears: Ears) -> None:
    listener, _ = ears.listen(["q:orders"])

    assert listener.register_idle(["orders"]).missed
    assert not listener.register_idle(["orders"]).missed


@COUNTING
def test_news_that_reached_somebody_makes_nobody_else_look(
    notifier: Notifier, three: list[tuple[Listener, Wake]]
) -> None:
    for listener, _ in three:
        listener.register_idle(["orders"])

    notifier.announce(ONE)

    assert not three[1][0].register_idle(["orders"]).missed
    assert settled(notifier, three) == [True, False, False]
    assert not three[0][0].register_idle(["orders"]).missed


@COUNTING
def test_where_nobody_was_ever_interested_all_who_listen_are_woken(notifier: Notifier, ears: Ears) -> None:
    wakes = [ears.listen(["q:orders"])[1] for _ in range(2)]

    notifier.announce(ONE)

    for wake in wakes:
        wait_for(wake, "q:orders")


def test_a_message_for_later_wakes_one_session_to_wait_for_it(
    notifier: Notifier, three: list[tuple[Listener, Wake]]
) -> None:
    notifier.announce({"orders": News(due_seconds=60.0)})

    assert settled(notifier, three) == [True, False, False]


def test_names_of_any_kind_are_announced(notifier: Notifier, ears: Ears) -> None:
    names = ["with space", "Bücher", "*", "[a]", "a:b", "{x}", "%s"]
    listener, wake = ears.listen([f"q:{name}" for name in names])
    for name in names:
        listener.register_idle([name])

        notifier.announce({name: News(messages=1)})

        wait_until(lambda: f"n:{name}" in wake.take_topics())  # noqa: B023 - called at once


def test_a_notice_says_that_messages_came_back(notifier: Notifier, three: list[tuple[Listener, Wake]]) -> None:
    notifier.announce({"orders": News(messages=1, back=True)})

    wait_for(three[0][1], "b:orders")
