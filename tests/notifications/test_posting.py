"""Hints are posted without waiting for answers, and still none is lost that need not be."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING

import pytest
import redis

from django_mq.notifications.redis import CROWD, SELDOM_SECONDS, Post, Poster, Script
from tests.support.forking import exit_code_of_child
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.redis import Redis

CHANNEL = "django_mq:q:orders"
HINT = Post(("PUBLISH", CHANNEL, b"1"))
#: Longest wait for an answer: one that a test waits in vain for, the others must not be late for.
LIMIT_SECONDS = 3.0


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(
        redis_server.url, socket_timeout=LIMIT_SECONDS, socket_connect_timeout=LIMIT_SECONDS
    ) as client:
        yield client


def post_a_crowd(poster: Poster) -> None:
    for _ in range(CROWD + 1):
        poster.post([HINT])


def heard(client: redis.Redis, count: int) -> int:
    """How many hints arrive, waiting for so many at most."""
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(CHANNEL)
        pubsub.get_message(timeout=PATIENCE_SECONDS)
        poster = Poster(client)
        for _ in range(count):
            assert poster.post([HINT])
        answers = (pubsub.get_message(timeout=PATIENCE_SECONDS) for _ in range(count))
        return len(list(takewhile(lambda answer: answer is not None, answers)))


def test_every_hint_of_a_burst_arrives(client: redis.Redis) -> None:
    assert heard(client, CROWD * 3 + 1) == CROWD * 3 + 1


def test_a_connection_that_died_meanwhile_does_not_swallow_the_next_hint(client: redis.Redis) -> None:
    poster = Poster(client)
    for _ in range(3):
        poster.post([HINT])
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(CHANNEL)
        pubsub.get_message(timeout=PATIENCE_SECONDS)
        client.client_kill_filter(_type="normal", skipme=True)
        poster._posted_at -= SELDOM_SECONDS

        poster.post([HINT])

        assert pubsub.get_message(timeout=PATIENCE_SECONDS) is not None


@pytest.mark.once
def test_a_server_that_answers_nothing_costs_one_time_limit_however_many_hints(
    client: redis.Redis, redis_server: Redis
) -> None:
    poster = Poster(client)
    poster.post([HINT])
    redis_server.freeze()
    started = time.monotonic()

    with pytest.raises((redis.RedisError, OSError)):
        post_a_crowd(poster)

    assert time.monotonic() - started < LIMIT_SECONDS * CROWD / 2


def test_a_refusal_is_noticed_within_a_crowd_of_hints(client: redis.Redis) -> None:
    poster = Poster(client)
    poster.post([HINT])
    client.acl_setuser("default", enabled=True, nopass=True, commands=["+@all", "-publish"], keys=["*"])

    with pytest.raises(redis.RedisError):
        post_a_crowd(poster)


def test_who_finds_the_connection_busy_is_told_so(client: redis.Redis) -> None:
    poster = Poster(client)

    with poster._lock:
        assert not poster.post([HINT])


def test_a_forked_child_posts_over_a_connection_of_its_own(client: redis.Redis) -> None:
    poster = Poster(client)
    poster.post([HINT])
    before = len(client.client_list())

    assert exit_code_of_child(lambda: 0 if poster._connection is None and poster.post([HINT]) else 1) == 0
    wait_until(lambda: len(client.client_list()) == before, lambda: "the child's connection to close")
    assert poster.post([HINT])


def test_a_script_that_the_server_has_forgotten_is_sent_in_full(client: redis.Redis) -> None:
    poster = Poster(client)
    script = Script("return redis.call('INCR', 'runs')", "0" * 40)

    poster.post([script.post()])

    assert client.get("runs") == b"1"


def test_what_the_server_refuses_is_replaced_within_a_crowd(client: redis.Redis) -> None:
    poster = Poster(client)

    for _ in range(CROWD + 1):
        poster.post([Post(("NO-SUCH-COMMAND",), if_refused=[("INCR", "instead")])])

    assert int(client.get("instead") or 0) >= CROWD
