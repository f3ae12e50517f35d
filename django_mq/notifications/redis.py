"""Hints between processes, through Redis publish/subscribe.

Channels, each ``PREFIX:TOPIC``: one per topic, the message is always "1". Redis keeps
nothing: no key is written.

    django_mq:q:orders          something was published into queue "orders", or it was resumed
    django_mq:v:NODE.pidbox     a volatile message for this queue

Sending is behind a breaker: after a failure hints are dropped for a while instead of
making every publisher wait for a dead server. Listening has a thread of its own, which
reconnects with growing pauses and wakes the worker after each reconnect, because hints
sent meanwhile are gone.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import redis

from django_mq.notifications.base import Listener, Notifier
from django_mq.notifications.posting import Poster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.notifications.wake import Wake

logger = logging.getLogger("django_mq.notifications")

#: Seconds without hints after Redis failed; then one publisher tries again.
BREAKER_SECONDS = 5.0
#: Longest pause between two attempts to reconnect a listener, in seconds.
RECONNECT_CAP_SECONDS = 5.0
#: A listener's read returns at least so often, to follow changed topics and to stop.
LISTEN_SECONDS = 1.0


class RedisNotifier(Notifier):
    """Publishes topics, quickly or not at all."""

    reaches_others = True

    def __init__(self, url: str, *, prefix: str, timeout_seconds: float) -> None:
        self._url = url
        self._prefix = prefix
        self._client = redis.Redis.from_url(
            url, socket_timeout=timeout_seconds, socket_connect_timeout=timeout_seconds
        )
        self._poster = Poster(self._client)
        self._closed_until = 0.0

    def send(self, topics: Iterable[str]) -> None:
        now = time.monotonic()
        if now < self._closed_until:
            return
        try:
            self._publish([f"{self._prefix}:{topic}" for topic in topics])
        except (redis.RedisError, OSError) as error:
            self._closed_until = now + BREAKER_SECONDS
            logger.warning("Redis cannot be reached, hints are dropped for %s s: %s", BREAKER_SECONDS, error)

    def _publish(self, channels: list[str]) -> None:
        if self._poster.post(channels):
            return
        with self._client.pipeline(transaction=False) as pipeline:
            for channel in channels:
                pipeline.publish(channel, b"1")
            pipeline.execute()

    def trouble(self) -> str:
        # Patient with itself, unlike a publisher, and whatever the breaker remembers.
        channel = f"{self._prefix}:examination:{os.urandom(8).hex()}"
        try:
            with (
                redis.Redis.from_url(self._url, socket_timeout=2.0, socket_connect_timeout=2.0) as client,
                client.pubsub() as pubsub,
            ):
                pubsub.subscribe(channel)
                pubsub.get_message(timeout=2.0)
                client.publish(channel, b"1")
                heard = pubsub.get_message(timeout=2.0)
        except (redis.RedisError, OSError) as error:
            return str(error) or type(error).__name__
        return "" if heard and heard["type"] == "message" else "Redis answers, but the hint is not delivered."

    def listen(self, wake: Wake) -> RedisListener:
        return RedisListener(self._url, self._prefix, wake)


class RedisListener(Listener):
    """Subscribes for one worker, in a thread of its own."""

    def __init__(self, url: str, prefix: str, wake: Wake) -> None:
        self._url = url
        self._prefix = prefix
        self._wake = wake
        self._topics: frozenset[str] = frozenset()
        self._connected = False
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        # Written to make the thread look at changed topics at once instead of at its next read.
        self._pubsub: Any = None
        # Reentrant: a signal's handler may cancel consumers in the middle of a subscription.
        self._lock = threading.RLock()

    def subscribe(self, topics: Iterable[str]) -> None:
        with self._lock:
            before, self._topics = self._topics, frozenset(topics)
            if self._pubsub is not None and self._connected:
                self._adjust(before)
        if self._thread is None and self._topics:
            self._thread = threading.Thread(target=self._run, name="django_mq-hints", daemon=True)
            self._thread.start()

    def _adjust(self, before: frozenset[str]) -> None:
        try:
            if added := self._topics - before:
                self._pubsub.subscribe(*self._channels(added))
            if gone := before - self._topics:
                self._pubsub.unsubscribe(*self._channels(gone))
        except (redis.RedisError, OSError):
            self._connected = False  # the thread reconnects with the topics as they are then

    @property
    def connected(self) -> bool:
        return self._connected

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            before, self._topics = self._topics, frozenset()
            if self._pubsub is not None and self._connected:
                self._adjust(before)  # the answer ends the thread's read
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(timeout=LISTEN_SECONDS * 2)

    def _channels(self, topics: Iterable[str]) -> list[str]:
        return [f"{self._prefix}:{topic}" for topic in topics]

    def _run(self) -> None:
        pause = 0.1
        while not self._closing.is_set():
            try:
                self._listen()
                pause = 0.1
            except (redis.RedisError, OSError, ValueError) as error:
                logger.warning("Redis cannot be heard, looking regularly instead: %s", error)
            self._connected = False
            # Jitter keeps a fleet from reconnecting in step.
            self._closing.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
            pause = min(pause * 2, RECONNECT_CAP_SECONDS)

    def _listen(self) -> None:
        with (
            redis.Redis.from_url(
                self._url, socket_connect_timeout=2.0, socket_timeout=10.0, health_check_interval=5
            ) as client,
            client.pubsub(ignore_subscribe_messages=True) as pubsub,
        ):
            with self._lock:
                pubsub.subscribe(*self._channels(self._topics))
                self._pubsub, self._connected = pubsub, True
            self._wake.set()
            try:
                while not self._closing.is_set() and self._connected:
                    heard = pubsub.get_message(timeout=LISTEN_SECONDS)
                    if heard is not None:
                        self._wake.set(heard["channel"].decode().removeprefix(f"{self._prefix}:"))
            finally:
                with self._lock:
                    self._pubsub = None
