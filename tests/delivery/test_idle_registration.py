"""Two sessions and the hint channel: which one is notified, which one hands on, and that none misses a message."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.api import publish, publish_many
from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.runtime import ConsumerRuntime, IdleRegistration
from django_mq.delivery.queues import declare
from django_mq.notifications.base import queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

pytestmark = pytest.mark.on("postgresql")

QUEUES = ("orders",)


class Sleeper:
    """A session as a driver has it: woken, it claims what credit allows."""

    def __init__(self, alias: str) -> None:
        self.runtime = ConsumerRuntime(alias, kind="native", driver=Driver())
        self.session, self.fetcher, self.wake = self.runtime.session, self.runtime.fetcher, self.runtime.wake
        self.listener = notifier().listen(self.wake)
        self.listener.subscribe([queue_topic(name) for name in QUEUES])
        wait_until(lambda: self.listener.connected)
        self.fetcher.consume(QUEUES)
        self.registration = IdleRegistration(self.listener, self.fetcher)

    def turn(self, *, credit: int = 10, slots: int = 10) -> list[bytes]:
        """Hear, claim, and settle down, as often as there is a reason; return what was claimed."""
        claimed = []
        self.registration.hear(self.wake.take_topics())
        while True:
            claimed += self.fetcher.fetch(credit=credit - len(claimed), slots=slots, refill=credit + 1)
            able = credit > len(claimed) and slots > 0
            if self.registration.settle_down(QUEUES if able else (), able=able):
                return [message.body for message in claimed]

    def told(self) -> bool:
        """Whether a notification came, waiting for it; what was said before is forgotten."""
        return self.wake.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.registration.leave()
        self.listener.close()
        self.runtime.close()
        self.session.store.close()


@pytest.fixture(params=["local", "redis", "postgresql"])
def hinted(request: pytest.FixtureRequest, committed_database: str, settings: Settings) -> str:
    """A database with hints within the process, or between processes; no session looks without one."""
    if request.param == "postgresql" and committed_database != "postgresql":
        pytest.skip("only PostgreSQL notifies sessions itself")
    hints = "none" if request.param == "local" else request.param
    slow = {"HINTS": hints, "SAFETY_POLL_SECONDS": 3600, "POLL_SECONDS": 3600, "REDIS_PREFIX": uuid4().hex}
    if request.param == "redis":
        slow["REDIS_URL"] = request.getfixturevalue("redis_url")
        slow["REDIS_TIMEOUT_SECONDS"] = 30.0
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **slow}
    declare(shared_store(committed_database), "orders")
    return committed_database


@pytest.fixture
def pair(hinted: str) -> Iterator[tuple[Sleeper, Sleeper]]:
    """Two idle sessions; the first has been idle longer."""
    first, second = Sleeper(hinted), Sleeper(hinted)
    for sleeper in (first, second):
        assert sleeper.turn() == []
        sleeper.wake.clear()
        sleeper.turn()
    yield first, second
    first.close()
    second.close()


def test_one_message_wakes_one_of_two_and_costs_one_claim(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair

    publish("orders", 1)

    assert first.told()
    assert first.turn() == [b"1"]
    assert second.turn() == []
    assert not second.fetcher.looking


def test_who_is_told_without_a_slot_hands_the_notice_on(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair
    publish("orders", 1)
    assert first.told()

    assert first.turn(slots=0) == []

    assert second.told()
    assert second.turn() == [b"1"]


def test_who_cannot_take_everything_hands_the_rest_on(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair
    second.turn(slots=0)
    publish_many([("orders", number) for number in range(2)])
    assert first.told()
    first.registration.hear(first.wake.take_topics())
    assert len(first.fetcher.fetch(credit=1, slots=1)) == 1

    assert second.turn() == [b"1"]


def test_who_leaves_hands_its_notice_on(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair
    publish("orders", 1)
    assert first.told()
    first.registration.hear(first.wake.take_topics())

    first.registration.leave()

    assert second.told()
    assert second.turn() == [b"1"]


def test_who_was_at_work_when_news_found_nobody_looks_before_it_sleeps(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair
    assert first.turn(slots=0) == []
    assert second.turn(slots=0) == []

    publish("orders", 1)

    assert second.turn() == [b"1"]


def test_what_comes_between_the_claim_and_the_sleep_is_not_slept_through(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair
    second.turn(slots=0)
    publish("orders", 1)
    assert first.told()
    first.registration.hear(first.wake.take_topics())
    assert len(first.fetcher.fetch(credit=10, slots=10)) == 1

    publish("orders", 2)  # no session is idle now

    assert first.turn() == [b"2"]


def test_a_session_that_ends_wakes_as_many_as_it_gives_back_messages(
    hinted: str, pair: tuple[Sleeper, Sleeper]
) -> None:
    leaving = Sleeper(hinted)
    publish("orders", 1)
    publish("orders", 2)
    assert leaving.turn() == [b"1", b"2"]
    for sleeper in pair:
        assert sleeper.told()
        assert sleeper.turn() == []

    leaving.close()

    assert [sleeper.told() for sleeper in pair] == [True, True]


def scheduled_and_seen(sleeper: Sleeper, delay: float) -> bool:
    """Publish something for later; whether the session knew of it before it was due, which a pause may prevent."""
    publish("orders", delay, delay=delay)
    assert sleeper.told()
    return sleeper.turn() == []


def test_who_cannot_see_to_what_is_due_says_so_once(pair: tuple[Sleeper, Sleeper]) -> None:
    first, second = pair
    soon = next(delay for delay in (0.2, 1, 5, 25, 125) if scheduled_and_seen(first, delay))
    wait_until(lambda: first.fetcher.seconds_until_due() in {0, None})

    first.turn(slots=0)
    assert wait_until(lambda: second.turn() or None) == [b"%g" % soon]
    second.turn()
    for _ in range(3):
        first.turn(slots=0)

    # No notification has woken it, nor was one missed, for what it had seen to.
    assert not second.listener.register_idle(QUEUES).missed
