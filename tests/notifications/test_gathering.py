"""Hints that would find no idle session are sent together, and none of them is forgotten."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from django_mq.notifications.base import News
from django_mq.notifications.gathering import MOMENT_SECONDS, STALLED_SECONDS, Gathering
from tests.support.forking import exit_code_of_child
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.notifications.redis import RedisNotifier
    from tests.notifications.conformance.conftest import Ears


ONE = {"orders": News(messages=1)}
#: A moment that begins so late lasts longer than any test.
LATER_SECONDS = 3600.0


@pytest.fixture
def sent() -> list[Mapping[str, News]]:
    return []


@pytest.fixture
def gathering(sent: list[Mapping[str, News]]) -> Gathering:
    """One that has just heard that no session of ``orders`` is idle."""
    gathering = Gathering(sent.append)
    for _ in range(2):
        gathering.answered(["orders"], time.monotonic() + LATER_SECONDS, 0)
    return gathering


def told(sent: list[Mapping[str, News]]) -> int:
    return sum(news["orders"].messages for news in sent)


def test_what_nothing_follows_is_sent_a_moment_later(gathering: Gathering, sent: list[Mapping[str, News]]) -> None:
    assert all(gathering.keep(ONE) for _ in range(3))

    wait_until(lambda: told(sent) == 3)


def test_what_is_kept_goes_with_the_next_hint(gathering: Gathering, sent: list[Mapping[str, News]]) -> None:
    for _ in range(3):
        gathering.keep({"orders": News(messages=2)})

    sent.append(gathering.with_kept({"orders": News(messages=1, due_seconds=5.0)}))

    wait_until(lambda: told(sent) == 7)
    assert 5.0 in [news["orders"].due_seconds for news in sent]


def test_an_exit_sends_what_is_kept(gathering: Gathering, sent: list[Mapping[str, News]]) -> None:
    gathering.keep(ONE)

    gathering.flush()

    assert told(sent) == 1


def test_the_thread_ends_when_there_is_nothing_left_and_comes_back(
    gathering: Gathering, sent: list[Mapping[str, News]]
) -> None:
    for round_ in range(1, 3):
        gathering.keep(ONE)
        wait_until(lambda: gathering._thread is None)
        assert told(sent) == round_


@pytest.mark.parametrize("news", [News(messages=1, back=True), News(due_seconds=1.0), News(1, 0.5)])
def test_what_came_back_or_is_due_is_never_kept(gathering: Gathering, news: News) -> None:
    assert not gathering.keep({"orders": news})


def test_a_hint_that_found_somebody_says_nothing_of_the_next(gathering: Gathering) -> None:
    gathering.answered(["orders"], time.monotonic() + LATER_SECONDS, 1)

    assert not gathering.keep(ONE)


def test_an_answer_of_old_says_nothing(gathering: Gathering) -> None:
    gathering.answered(["orders"], time.monotonic() - MOMENT_SECONDS, 0)

    assert not gathering.keep(ONE)


def test_news_of_another_queue_is_not_kept(gathering: Gathering) -> None:
    assert not gathering.keep({"orders": News(1), "mail": News(1)})


def test_who_is_interrupted_in_the_middle_is_not_waited_for(gathering: Gathering) -> None:
    with gathering._lock:
        assert not gathering.keep(ONE)
        assert gathering.with_kept(ONE) == ONE


def test_where_no_thread_runs_nothing_is_kept_any_more(
    gathering: Gathering, sent: list[Mapping[str, News]]
) -> None:
    gathering._thread = threading.Thread()  # as on a server that lets none run
    assert gathering.keep(ONE)
    gathering._since -= STALLED_SECONDS

    assert not gathering.keep(ONE)
    assert gathering.with_kept(ONE) == {"orders": News(messages=2)}
    assert not gathering.keep(ONE)
    assert sent == []


def test_a_forked_child_sends_nothing_of_its_parents(gathering: Gathering, sent: list[Mapping[str, News]]) -> None:
    gathering._thread = threading.Thread()
    gathering.keep(ONE)

    def flush() -> int:
        gathering.flush()
        return len(sent)

    assert exit_code_of_child(flush) == 0
    gathering.flush()
    assert told(sent) == 1


def test_who_falls_asleep_in_the_middle_of_a_burst_is_told(notifier: RedisNotifier, ears: Ears) -> None:
    listener, wake = ears.listen(["q:orders"])
    listener.register_idle(["orders"])
    for _ in range(100):
        listener.withdraw()
        notifier.announce(ONE, may_wait=True)
        wake.clear()
        while listener.register_idle(["orders"]).missed:
            wake.clear()
        notifier.announce(ONE, may_wait=True)

        assert wake.wait(PATIENCE_SECONDS)


def test_the_answer_to_one_hint_of_a_burst_speaks_for_the_others(notifier: RedisNotifier) -> None:
    for _ in range(2):
        notifier.announce(ONE, may_wait=True)

    assert notifier._gathering._none_idle_until["orders"] > 0


def test_moments_grow_while_no_session_is_idle_and_begin_anew_after_one_was_or_a_pause(
    sent: list[Mapping[str, News]],
) -> None:
    gathering = Gathering(sent.append, longest_moment_seconds=4 * MOMENT_SECONDS)

    def moment(asked_at: float) -> float:
        gathering.answered(["orders"], asked_at, 0)
        return gathering._none_idle_until["orders"] - asked_at

    grown = [moment(100.0), moment(100.001), moment(100.01), moment(100.02), moment(100.04)]
    gathering.answered(["orders"], 100.05, 1)
    after_one, after_a_pause = moment(100.051), moment(100.1)

    assert grown == pytest.approx([MOMENT_SECONDS * factor for factor in (0, 1, 2, 4, 4)])
    assert [after_one, after_a_pause] == pytest.approx([0, 0])
