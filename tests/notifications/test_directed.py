"""What Redis keeps of sessions, and what becomes of news when it forgets, refuses, hangs, or its sessions die."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis

from django_mq import outages
from django_mq.engine.decisions.backoff import Backoff
from django_mq.notifications.base import News
from django_mq.notifications.redis import RedisNotifier
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.notifications.base import Wake
    from django_mq.notifications.redis import RedisListener
    from tests.notifications.conformance.conftest import Ears
    from tests.services.redis import Redis

ONE = {"orders": News(messages=1)}
#: Seconds that a test may stand still between what it says and what it hears.
AROUND = 14.0


@pytest.fixture
def client(redis_server: Redis) -> Iterator[Any]:
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        yield client


def an_idle_session(ears: Ears) -> tuple[Any, Wake]:
    listener, wake = ears.listen(["q:orders"])
    listener.register_idle(["orders"])
    return listener, wake


def test_every_key_ends_by_itself(notifier: RedisNotifier, ears: Ears, client: Any) -> None:
    sessions = [ears.listen(["q:orders"])[0] for _ in range(2)]
    for listener in sessions:
        listener.register_idle(["orders"], due_seconds=30.0)

    def announced(news: News, left: int) -> None:
        """Wait until as many are interested as the news has left: it goes its own way, and is not waited for."""
        notifier.announce({"orders": news})
        wait_until(lambda: client.zcard("{mq}:idle:orders") == left)

    announced(News(messages=2, due_seconds=10.0), 0)
    sessions[0].register_idle(["orders"])
    announced(News(messages=3), 0)
    for listener in sessions:
        listener.register_idle(["orders"])
    announced(News(messages=1), 1)

    keys = client.keys("*")

    assert {key.split(":")[1] for key in keys} >= {"session", "idle", "notified", "missed", "armed"}
    assert [key for key in keys if client.ttl(key) < 0] == []
    assert all(key.startswith("{mq}:") for key in keys)


def test_the_dead_are_cleared_away_by_those_who_come(notifier: RedisNotifier, ears: Ears, client: Any) -> None:
    client.zadd("{mq}:idle:orders", {f"dead-{number}": number for number in range(10)})

    listener, _ = an_idle_session(ears)
    for _ in range(5):
        listener.register_idle(["orders"])

    assert client.zcard("{mq}:idle:orders") == 1


def test_a_flushed_redis_costs_directedness_and_no_wake_up(
    notifier: RedisNotifier, ears: Ears, client: Any
) -> None:
    listener, wake = an_idle_session(ears)
    client.flushall()

    notifier.announce(ONE)

    wait_until(lambda: "q:orders" in wake.take_topics())

    # A slow machine may not answer in time, and what was missed is told once.
    def has_missed_what_was_flushed() -> bool:
        client.flushall()
        return listener.register_idle(["orders"]).missed

    def is_woken() -> bool:
        notifier.announce(ONE)
        return "n:orders" in wake.take_topics()

    wait_until(has_missed_what_was_flushed)
    wait_until(is_woken)


def test_a_forgotten_script_is_sent_again(notifier: RedisNotifier, ears: Ears, client: Any) -> None:
    _, wake = an_idle_session(ears)
    notifier.announce({"others": News(messages=1)})  # the connection has been greeted
    client.script_flush()

    for _ in range(40):
        notifier.announce(ONE)

    wait_until(lambda: "n:orders" in wake.take_topics())


@pytest.mark.parametrize("setting", [("maxmemory", "1"), ("min-replicas-to-write", "1")])
def test_a_redis_that_takes_no_writes_still_carries_hints(
    notifier: RedisNotifier, ears: Ears, client: Any, setting: tuple[str, str]
) -> None:
    _, wake = an_idle_session(ears)
    client.config_set(*setting)

    for _ in range(40):
        notifier.announce(ONE)

    wait_until(lambda: wake.take_topics() & {"q:orders", "n:orders"})


def test_a_read_only_replica_still_carries_hints(notifier: RedisNotifier, ears: Ears, client: Any) -> None:
    _, wake = an_idle_session(ears)
    client.replicaof("127.0.0.1", "1")

    for _ in range(40):
        notifier.announce(ONE)

    wait_until(lambda: wake.take_topics() & {"q:orders", "n:orders"})


def test_a_session_that_redis_does_not_know_looks_often(ears: Ears, client: Any) -> None:
    listener, _ = an_idle_session(ears)
    assert listener.connected
    client.config_set("maxmemory", "1")

    listener.register_idle(["orders"])

    assert not listener.connected


def test_a_hanging_server_costs_publishers_one_time_limit_each_pause(
    redis_server: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(outages, "INTERVALS", Backoff())  # log each failure
    notifier = RedisNotifier(redis_server.url, prefix="mq", timeout_seconds=0.2)
    notifier.announce(ONE)
    redis_server.freeze()

    began = time.monotonic()
    for _ in range(10_000):
        notifier.announce(ONE)
    tried = caplog.text.count("hints are dropped")

    assert 1 <= tried <= 2 + (time.monotonic() - began) / 0.375  # the shortest pause
    redis_server.thaw()


def test_who_was_told_and_hangs_is_made_up_for_by_the_next_news(
    notifier: RedisNotifier, ears: Ears, client: Any
) -> None:
    sessions = [an_idle_session(ears) for _ in range(3)]
    notifier.announce(ONE)
    wait_until(lambda: "n:orders" in sessions[0][1].take_topics())
    name = client.zrange("{mq}:notified:orders", 0, -1)[0]
    client.zadd("{mq}:notified:orders", {name: 1})  # its time is over

    notifier.announce(ONE)

    for _, wake in sessions[1:]:
        wait_until(lambda: "n:orders" in wake.take_topics())  # noqa: B023 - called at once


def test_who_was_told_and_hangs_makes_whoever_comes_look(notifier: RedisNotifier, ears: Ears, client: Any) -> None:
    sessions = [an_idle_session(ears) for _ in range(2)]
    sessions[1][0].register_idle(["orders"])
    notifier.announce(ONE)
    wait_until(lambda: "n:orders" in sessions[0][1].take_topics())
    client.zadd("{mq}:notified:orders", {client.zrange("{mq}:notified:orders", 0, -1)[0]: 1})

    assert sessions[1][0].register_idle(["orders"]).missed


KILLED = """
import os, signal, sys, time
from django_mq.notifications.redis import RedisNotifier
from django_mq.notifications.base import Wake
wake = Wake()
listener = RedisNotifier(sys.argv[1], prefix="mq", timeout_seconds=30.0).listen(wake)
listener.subscribe(["q:orders"])
while not listener.connected:
    time.sleep(0.01)
listener.register_idle(["orders"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_session_is_passed_over(
    redis_server: Redis, notifier: RedisNotifier, ears: Ears, client: Any
) -> None:
    subprocess.run(
        [sys.executable, "-c", KILLED, redis_server.url],
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings.sqlite"},
    )
    assert client.zcard("{mq}:idle:orders") == 1
    wait_until(lambda: client.client_list(_type="pubsub") == [])
    _, wake = an_idle_session(ears)

    notifier.announce(ONE)

    wait_until(lambda: "n:orders" in wake.take_topics())


# Due times


def due(listener: RedisListener, seconds: float | None = None, *, following: bool = False) -> tuple[Any, Any]:
    registered = listener.register_idle(["orders"], due_seconds=seconds, following=following)
    return registered.due_seconds, registered.ask_seconds


def test_of_those_who_know_of_a_due_time_one_waits_for_it(ears: Ears) -> None:
    first, second, third = (an_idle_session(ears)[0] for _ in range(3))

    assert due(first, 60.0) == (pytest.approx(60.0, abs=AROUND), None)
    assert due(second, 60.0) == (None, pytest.approx(60.0, abs=AROUND))
    assert due(third, 30.0) == (pytest.approx(30.0, abs=AROUND), None)


def test_when_who_waits_goes_to_work_another_takes_over(ears: Ears) -> None:
    first, second = (an_idle_session(ears)[0] for _ in range(2))
    due(first, 60.0)
    due(second, 60.0)
    first.withdraw()

    assert due(second, following=True) == (pytest.approx(60.0, abs=AROUND), None)


def test_who_has_seen_to_it_leaves_nothing_to_take_over(ears: Ears) -> None:
    first, second = (an_idle_session(ears)[0] for _ in range(2))
    due(first, 60.0)
    due(second, 60.0)
    due(first, None)

    assert due(second, following=True) == (None, None)


def test_a_later_due_time_wakes_nobody(notifier: RedisNotifier, ears: Ears) -> None:
    listener, wake = an_idle_session(ears)
    due(listener, 30.0)
    wake.take_topics()

    notifier.announce({"orders": News(due_seconds=60.0)})
    notifier.announce({"orders": News(due_seconds=10.0)})
    notifier.send(["q:orders"])

    heard: set[str] = set()
    while "q:orders" not in heard:
        assert wake.wait(PATIENCE_SECONDS)
        heard |= wake.take_topics()
    assert heard == {"q:orders", "n:orders"}
