"""Redis comes and goes: publishers are not slowed, listeners come back by themselves."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import redis

from django_mq import outages
from django_mq.engine.decisions.backoff import Backoff
from django_mq.notifications import gathering
from django_mq.notifications.base import News, Wake
from django_mq.notifications.gathering import MOMENT_SECONDS
from django_mq.notifications.redis import Post, RedisNotifier
from tests.support.forking import exit_code_of_child, held_by_another_thread
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.notifications.conformance.conftest import Ears
    from tests.services.redis import Redis


class Deaf:
    """Never answers; counts the connections, which the system makes for it."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.socket.setblocking(False)
        self._accepted: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.socket.getsockname()[1]}/0"

    @property
    def connections(self) -> int:
        """How many there have been."""
        with suppress(BlockingIOError):
            while True:
                self._accepted.append(self.socket.accept()[0])
        return len(self._accepted)

    def close(self) -> None:
        for connection in self._accepted:
            connection.close()
        self.socket.close()


@pytest.fixture
def deaf() -> Iterator[Deaf]:
    """A server that hangs."""
    server = Deaf()
    yield server
    server.close()


def test_a_publisher_asks_a_hanging_server_once_and_then_no_more(
    deaf: Deaf, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the test: a pause that is over is a reason to ask again.
    monkeypatch.setattr(gathering, "PAUSES", Backoff(base_seconds=1200.0))
    monkeypatch.setattr(outages, "INTERVALS", Backoff())  # log each failure
    notifier = RedisNotifier(deaf.url, prefix="p", timeout_seconds=0.05)

    notifier.send(["q:orders"])
    after_first = deaf.connections
    for _ in range(1000):
        notifier.send(["q:orders"])

    assert after_first >= 1
    assert deaf.connections == after_first
    assert caplog.text.count("hints are dropped") == 1


def test_a_publisher_tries_again_when_the_breaker_closes(
    redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PAUSES", Backoff())
    notifier = RedisNotifier(redis_server.url, prefix="p", timeout_seconds=30.0)
    redis_server.kill()
    notifier.send(["q:orders"])
    assert notifier.problem()
    redis_server.start()
    wake = Wake()
    listener = notifier.listen(wake)
    listener.subscribe(["q:orders"])
    wait_until(lambda: listener.connected)
    wake.take_topics()

    notifier.send(["q:orders"])

    wait_until(lambda: "q:orders" in wake.take_topics())
    assert notifier.problem() == ""
    listener.close()
    wake.close()


def test_a_listener_reconnects_and_wakes_because_hints_may_have_been_missed(redis_server: Redis) -> None:
    notifier = RedisNotifier(redis_server.url, prefix="p", timeout_seconds=30.0)
    wake = Wake()
    listener = notifier.listen(wake)
    listener.subscribe(["q:orders"])
    wait_until(lambda: listener.connected)
    wake.take_topics()

    redis_server.kill()
    wait_until(lambda: not listener.connected)
    wake.take_topics()
    wake.clear()
    redis_server.start()

    wait_until(lambda: listener.connected)
    wait_until(lambda: "*" in wake.take_topics(), "the wake-up after the reconnect")
    notifier.send(["q:orders"])
    wait_until(lambda: "q:orders" in wake.take_topics())
    listener.close()
    wake.close()


def test_a_user_who_may_not_write_the_keys_of_workers_is_a_problem(redis_server: Redis) -> None:
    given = {"enabled": True, "nopass": True, "commands": ["+@all"], "reset_channels": True, "channels": ["p:*"]}
    with redis.Redis.from_url(redis_server.url) as client:
        client.acl_setuser("denied", keys=["else:*"], **given)
        client.acl_setuser("allowed", keys=["{p}:*"], **given)
    denied, allowed = (
        RedisNotifier(redis_server.url.replace("//", f"//{name}:x@"), prefix="p", timeout_seconds=9)
        for name in ("denied", "allowed")
    )

    assert "key" in denied.problem()
    assert not allowed.problem()


def test_a_listener_that_loses_redis_ends_the_wait_of_its_session(redis_server: Redis) -> None:
    wake = Wake()
    listener = RedisNotifier(redis_server.url, prefix="p", timeout_seconds=30.0).listen(wake)
    listener.subscribe(["q:orders"])
    wait_until(lambda: listener.connected)
    assert wake.wait(None)
    wake.take_topics()

    redis_server.kill()

    assert wake.wait(None)
    assert not listener.connected
    listener.close()
    wake.close()


def test_a_listener_whose_topics_change_while_redis_is_away_hears_the_new_ones(redis_server: Redis) -> None:
    notifier = RedisNotifier(redis_server.url, prefix="p", timeout_seconds=30.0)
    wake = Wake()
    listener = notifier.listen(wake)
    listener.subscribe(["q:orders"])
    wait_until(lambda: listener.connected)
    redis_server.kill()
    wait_until(lambda: not listener.connected)

    listener.subscribe(["q:mails"])
    redis_server.start()
    wait_until(lambda: listener.connected)
    wake.take_topics()
    notifier.send(["q:mails"])

    wait_until(lambda: "q:mails" in wake.take_topics())
    listener.close()
    wake.close()


def test_a_listener_of_a_server_that_was_never_there_closes_at_once(free_port: int) -> None:
    wake = Wake()
    listener = RedisNotifier(f"redis://127.0.0.1:{free_port}/0", prefix="p", timeout_seconds=1.0).listen(wake)
    listener.subscribe(["q:orders"])

    listener.close()

    assert not listener.connected
    wake.close()


def test_what_earlier_hints_were_answered_does_not_hold_up_the_next(
    notifier: RedisNotifier, ears: Ears, caplog: pytest.LogCaptureFixture
) -> None:
    _, wake = ears.listen(["q:orders"])
    for command in ("PING", "NOSUCHCOMMAND"):  # after a post a moment ago, it waits for no answer
        notifier._poster.post([Post((command,))])
    notifier._poster._posted_at -= MOMENT_SECONDS  # no burst any more

    notifier.announce({"orders": News(messages=1)}, may_wait=True)

    wait_until(lambda: wake.take_topics() == {"q:orders"})
    wait_until(lambda: notifier.announce({"orders": News(messages=1)}, may_wait=True) or caplog.text)
    assert "unknown command" in caplog.text


def test_a_listener_that_a_forked_child_closes_goes_on_in_the_parent(notifier: RedisNotifier, ears: Ears) -> None:
    listener, wake = ears.listen(["q:orders"])
    listener.register_idle(["orders"])

    def use_and_close() -> None:
        listener.subscribe(["q:mails"])
        listener.register_idle(["mails"])
        listener.withdraw(["orders"])
        listener.close()

    with held_by_another_thread(listener._lock):
        ended = exit_code_of_child(use_and_close)

    assert ended == 0
    notifier.announce({"orders": News(messages=1)})
    wait_until(lambda: "n:orders" in wake.take_topics())
