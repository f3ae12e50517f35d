"""Malformed keys, answers and messages of Redis cost latency only: no caller gets an exception."""

from __future__ import annotations

import logging
import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import redis

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.backoff import Backoff
from django_mq.models import History
from django_mq.notifications import gathering
from django_mq.notifications import redis as listening
from django_mq.notifications.base import ANY, News, Wake
from django_mq.notifications.redis import RedisNotifier
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.notifications.liar import Liar
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.notifications.conformance.conftest import Ears
    from tests.services.redis import Redis

ONE = {"orders": News(messages=1, due_seconds=1.0)}

#: What a key may hold that is not ours, and how it comes there.
FOREIGN = (
    ("SET", "abc"),
    ("SET", ""),
    ("SET", b"\xff\x00"),
    ("SET", "1.5"),
    ("SET", "-1"),
    ("SET", "9223372036854775807"),
    ("SET", "9" * 400),
    ("SET", "inf"),
    ("SET", "9" * 400 + " x"),
    ("RPUSH", "1"),
    ("SADD", "1"),
    ("HSET", "field", "1"),
    ("ZADD", "1", "x"),
    ("ZADD", "inf", "x"),
    ("XADD", "*", "field", "1"),
)
KEYS = ("missed:orders", "idle:orders", "notified:orders", "armed:orders")

#: Replies in the shape of none of ours, and some that are no replies at all.
REPLIES = [
    b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"$0\r\n\r\n", b"$3\r\nabc\r\n", b"+\r\n", b"+OK\r\n", b":-1\r\n",
    b":99999999999999999999999\r\n", b":abc\r\n", b":\r\n", b"*1\r\n:1\r\n", b"*2\r\n:1\r\n:1\r\n",
    b"*3\r\n:1\r\n:1\r\n$-1\r\n", b"*3\r\n:1\r\n:1\r\n$3\r\nabc\r\n", b"*3\r\n$-1\r\n$-1\r\n:1\r\n",
    b"*3\r\n:9223372036854775807\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
    b"*3\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n",
    b"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", b"*3\r\n*0\r\n*0\r\n*0\r\n", b"*3\r\n-ERR a\r\n:1\r\n:1\r\n",
    b"*1\r\n" * 500 + b":1\r\n", b"-\r\n", b"-ERR \xff\xfe\r\n", b"-NOSCRIPT\r\n", b"-NOSCRIPT none\r\n",
    b"-MOVED 1 x:1\r\n", b"-ASK\r\n", b"-LOADING\r\n", b"-BUSY\r\n", b"-READONLY no\r\n", b"-NOAUTH no\r\n",
    b"-EXECABORT\r\n", b"-WRONGTYPE no\r\n", b"-MAXCLIENTS\r\n", b"%1\r\n+a\r\n:1\r\n", b"~1\r\n:1\r\n",
    b"_\r\n", b"#t\r\n", b",1.5\r\n", b">2\r\n+a\r\n+b\r\n", b"|1\r\n+a\r\n:1\r\n:1\r\n", b"(9\r\n",
    b"=5\r\ntxt:a\r\n", b"!3\r\nERR\r\n", b"\r\n", b"\x00\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"$x\r\n", b"*x\r\n", b"*3\r\n:x\r\n",
    b"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n",
    b"*3\r\n$7\r\nmessage\r\n$-1\r\n$-1\r\n", b"*3\r\n$7\r\nmessage\r\n:1\r\n:1\r\n", b"*1\r\n$7\r\nmessage\r\n",
    b"*4\r\n$8\r\npmessage\r\n$-1\r\n$1\r\nx\r\n:1\r\n", b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", b":1\r\n:1\r\n:1\r\n",
]  # fmt: skip


def drawn(count: int) -> list[bytes]:
    """Return replies made of pieces of others, the same in every run."""
    random_ = random.Random(7)
    pieces = [piece + b"\r\n" for reply in REPLIES for piece in reply.split(b"\r\n")[:20]]
    return [b"".join(random_.choices(pieces, k=random_.randint(1, 6))) for _ in range(count)]


@pytest.fixture
def client(redis_server: Redis) -> Iterator[Any]:
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def undaunted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause after a failure: each question is asked."""
    monkeypatch.setattr(gathering, "PAUSES", Backoff())


def test_what_stands_in_a_key_is_overwritten_if_it_is_not_ours(
    notifier: RedisNotifier, ears: Ears, client: Any
) -> None:
    listener, wake = ears.listen(["q:orders"])
    for key, (command, *arguments) in product(KEYS, FOREIGN):
        listener.register_idle(["orders"], due_seconds=5.0)
        client.delete(f"{{mq}}:{key}")
        client.execute_command(command, f"{{mq}}:{key}", *arguments)

        notifier.announce(ONE)
        listener.withdraw(["orders"])
        for following in (True, False):
            listener.register_idle(["orders"], due_seconds=5.0, following=following)
            assert listener.connected, (key, command, arguments)
        wake.take_topics()
        notifier.announce(ONE)

        wait_until(lambda: "n:orders" in wake.take_topics(), f"a notification after {command} {key} {arguments}")
        assert client.get("{mq}:missed:orders").isdigit()


@pytest.mark.once
@pytest.mark.usefixtures("undaunted")
@pytest.mark.parametrize("honest_at_first", [True, False])
def test_no_reply_raises(caplog: pytest.LogCaptureFixture, *, honest_at_first: bool) -> None:
    caplog.set_level(logging.CRITICAL)
    reply = b""
    with Liar(lambda _: reply, honest_at_first=honest_at_first) as liar:
        for reply in [*REPLIES, *drawn(60)]:
            notifier = RedisNotifier(liar.url, prefix="mq", timeout_seconds=0.02)
            listener = notifier.listen(Wake())
            listener._connected = True  # as one that heard something before
            for _ in range(2):
                registered = listener.register_idle(["orders"], due_seconds=1.0)
                assert registered.due_seconds is None or registered.due_seconds >= 0, reply
                listener.withdraw(["orders"])
                notifier.announce(ONE, may_wait=True)
                notifier.send(["q:orders"])


@pytest.mark.parametrize("honest_at_first", [True, False])
def test_no_reply_ends_a_listener(monkeypatch: pytest.MonkeyPatch, *, honest_at_first: bool) -> None:
    replies = iter([*REPLIES, *drawn(100)])
    monkeypatch.setattr(listening, "PAUSES", Backoff())
    with Liar(lambda _: next(replies, b""), honest_at_first=honest_at_first, hangs_up=True) as liar:
        listener = RedisNotifier(liar.url, prefix="mq", timeout_seconds=1.0).listen(Wake())
        listener.subscribe(["q:orders"])
        thread = listener._thread

        wait_until(lambda: next(replies, None) is None or not thread.is_alive())

        assert thread.is_alive()
        listener.close()


def test_no_reply_ends_an_examination() -> None:
    replies = iter([*REPLIES, *drawn(60)])
    with Liar(lambda _: next(replies, b""), honest_at_first=False, hangs_up=True) as liar:
        while next(replies, None) is not None:
            RedisNotifier(liar.url, prefix="mq", timeout_seconds=1.0).problem()
        assert RedisNotifier(liar.url, prefix="mq", timeout_seconds=1.0).problem()


def test_no_message_on_a_channel_is_more_than_a_reason_to_look(
    notifier: RedisNotifier, ears: Ears, client: Any
) -> None:
    listener, wake = ears.listen(["q:orders", "v:box"])
    listener.register_idle(["orders"])
    pieces = [
        b"1",
        b"-1",
        b"abc",
        b"9" * 5000,
        b" ",
        b"n:",
        b"b:orders",
        b"q:orders",
        b"n:others",
        b"\xff",
        b"",
        b"*",
    ]
    for data in [*pieces, *map(b" ".join, product(pieces, pieces))]:
        if data != b"1 b:orders":
            for channel in (listener._own_topic, "q:orders", "v:box"):
                client.publish(f"mq:{channel}", data)
    client.publish(f"mq:{listener._own_topic}", b"7 n:orders")

    heard: set[str] = set()
    wait_until(lambda: "n:orders" in heard or heard.update(wake.take_topics()))
    assert heard == {ANY, "q:orders", "v:box", "n:orders"}
    assert listener.connected
    assert listener._seen == {"orders": 7}


def test_a_worker_outlives_a_key_that_another_program_wrote(
    committed_database: str, settings: Settings, redis_server: Redis, client: Any
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": redis_server.url, "SAFETY_POLL_SECONDS": 0.1}
    declare(shared_store(committed_database), "orders")
    client.set("{django_mq}:missed:orders", "abc")

    with running(a_handler(), using=committed_database) as worker:
        wait_until(lambda: not worker.runtime.at_work)
        client.set("{django_mq}:missed:orders", "abc")
        publish("orders", 1, using=committed_database)
        wait_until(lambda: History.objects.using(committed_database).exists())
        wait_until(lambda: client.get("{django_mq}:missed:orders").isdigit())
