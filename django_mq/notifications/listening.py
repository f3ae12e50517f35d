"""What one worker session hears from Redis, and what it says of itself there.

A thread of its own waits at the channels. It reconnects with growing pauses and wakes the
session after each reconnect, because hints sent meanwhile are gone.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
from math import ceil
from typing import TYPE_CHECKING, Any

import redis

from django_mq.notifications.base import Listener, Standing, notice_topic, queue_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from django_mq.notifications.base import Wake
    from django_mq.notifications.redis import RedisNotifier

logger = logging.getLogger("django_mq.notifications")

#: Longest pause between two attempts to reconnect, in seconds.
RECONNECT_CAP_SECONDS = 5.0
#: A read returns at least so often, to follow changed topics and to stop.
LISTEN_SECONDS = 1.0
#: Keys that nobody touches are kept for so long, in milliseconds.
KEEP_MS = 3_600_000
#: How often a queue's news found no session, as a notice says it.
DIGITS = re.compile(r"[0-9]{1,16}")


class RedisListener(Listener):
    """Subscribes for one session. In a forked child, where it is the parent's, it does nothing."""

    def __init__(self, notifier: RedisNotifier, url: str, wake: Wake) -> None:
        self._notifier = notifier
        self._url = url
        self._wake = wake
        self._name = os.urandom(8).hex()
        self._topics: frozenset[str] = frozenset()
        self._connected = False
        # Whether Redis took our last word of interest: without it nobody will be told.
        self._known = True
        # How often each queue's news had found nobody when we last asked, or were told.
        self._seen: dict[str, int] = {}
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        # Written to make the thread look at changed topics at once instead of at its next read.
        self._pubsub: Any = None
        # Reentrant: a signal's handler may cancel consumers in the middle of a subscription.
        self._lock = threading.RLock()

    # What the session says.

    def interest(
        self,
        queues: Collection[str],
        *,
        due_seconds: float | None = None,
        following: bool = False,
        priority: int = 0,
    ) -> Standing:
        self._known = False
        if not self._connected_here:
            return Standing(due_seconds=due_seconds)  # no notice could reach this session
        lasts = ceil(self._notifier.interest_seconds * 1000)
        due = _due(due_seconds, following=following)
        arguments = self._name, lasts, max(lasts, KEEP_MS), priority, due, *queues
        answer = self._notifier.ask("interest", *arguments, numbers=2 + len(queues))
        if answer is None:
            return Standing(due_seconds=due_seconds)
        self._known = True
        look, ask, *missed = answer
        return Standing(self._has_moved(dict(zip(queues, missed, strict=True))), _seconds(look), _seconds(ask))

    def _has_moved(self, missed: dict[str, int]) -> bool:
        moved = any(self._seen.get(queue) != count for queue, count in missed.items())
        self._seen |= missed
        return moved

    def withdraw(self, answered: Collection[str] = ()) -> None:
        if self._connected_here:
            self._notifier.ask("withdraw", self._name, *answered, numbers=1)

    @property
    def connected(self) -> bool:
        return self._connected_here and self._known

    @property
    def _connected_here(self) -> bool:
        """Whether this process listens, and is connected."""
        return self._connected and os.getpid() == self._pid

    # What it hears.

    def subscribe(self, topics: Iterable[str]) -> None:
        if os.getpid() != self._pid:
            return
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
        except Exception:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            self._connected = False  # the thread reconnects with the topics as they are then

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        if self._seen:
            self.withdraw()
        self._closing.set()
        with self._lock:
            before, self._topics = self._topics, frozenset()
            if self._pubsub is not None and self._connected:
                self._adjust(before)  # the answer ends the thread's read
        if self._thread is not None:
            self._thread.join(timeout=LISTEN_SECONDS * 2)

    def _channels(self, topics: Iterable[str]) -> list[str]:
        return [f"{self._notifier.prefix}:{topic}" for topic in topics]

    @property
    def _own_topic(self) -> str:
        return f"s:{self._name}"

    def _run(self) -> None:
        pause = 0.1
        while not self._closing.is_set():
            try:
                self._listen()
                pause = 0.1
            except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
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
            client.pubsub() as pubsub,
        ):
            with self._lock:
                pubsub.subscribe(*self._channels([self._own_topic, *self._topics]))
                # Who says that it is interested before it can be told is passed over.
                if pubsub.get_message(timeout=2.0) is None:
                    raise TimeoutError("the subscription is not confirmed")
                self._pubsub, self._connected, self._known = pubsub, True, True
            self._wake.set()
            try:
                while not self._closing.is_set() and self._connected:
                    heard = pubsub.get_message(ignore_subscribe_messages=True, timeout=LISTEN_SECONDS)
                    if heard is not None:
                        self._hear(heard)
            finally:
                with self._lock:
                    self._pubsub = None

    def _hear(self, heard: dict[str, Any]) -> None:
        topic = _text(heard["channel"]).removeprefix(f"{self._notifier.prefix}:")
        if topic != self._own_topic:
            self._wake.set(topic)
            return
        missed, _, notice = _text(heard["data"]).partition(" ")
        queue = queue_of(notice)
        if not DIGITS.fullmatch(missed) or queue not in self._seen or notice not in _notices(queue):
            self._wake.set()  # another program wrote to the channel: look at everything
            return
        # Before the wake: the claim that follows it brings what was missed until now.
        self._seen[queue] = int(missed)
        self._wake.set(notice)


def _notices(queue: str) -> tuple[str, str]:
    return notice_topic(queue), notice_topic(queue, back=True)


def _text(value: bytes | str) -> str:
    # A URL may ask the client to decode; another program may send what cannot be decoded.
    return value if isinstance(value, str) else value.decode(errors="replace")


def _due(seconds: float | None, *, following: bool) -> int:
    if following:
        return -2
    return -1 if seconds is None else ceil(max(0.0, seconds) * 1000)


def _seconds(milliseconds: int) -> float | None:
    return None if milliseconds < 0 else milliseconds / 1000
