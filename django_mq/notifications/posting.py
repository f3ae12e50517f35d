"""Publishes to Redis without waiting for the answers, which are read together with a later post.

A burst of hints costs one system call each instead of a round trip. An answer that is an
error, or does not come, is noticed a few posts later: hints are only hints. Whoever posts
seldom waits for the answer, because a connection that died of old age must not swallow
the only hint.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Posts this far apart, in seconds, are not a burst: each waits for its answer.
SELDOM_SECONDS = 0.5
#: So many answers are outstanding at most; then they are read.
CROWD = 32


class Poster:
    """One connection for the hints of all threads, each of which finds it free or goes another way."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._connection: Any = None
        self._unanswered = 0
        self._posted_at = -SELDOM_SECONDS
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget_parent)

    def post(self, channels: Sequence[str]) -> bool:
        """Publish to each channel; False, and nothing happens, while another thread posts.

        Raises RedisError and OSError, also for what went wrong with earlier posts.
        """
        # Never waited for: its owner may be what a signal's handler has interrupted.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._post(channels)
        except BaseException:
            # Answers could no longer be told apart.
            self._hang_up()
            raise
        finally:
            self._lock.release()
        return True

    def _post(self, channels: Sequence[str]) -> None:
        now = time.monotonic()
        seldom = now - self._posted_at >= SELDOM_SECONDS
        self._posted_at = now
        if seldom and self._connection is not None and not self._answers_so_far():
            self._hang_up()
        self._send(channels)
        if seldom or self._unanswered >= CROWD:
            self._read_answers()

    def _answers_so_far(self) -> bool:
        """Read what is outstanding after a pause; False if the connection did not survive it."""
        try:
            self._read_answers()
            return not self._connection.can_read(timeout=0)
        except (redis.ConnectionError, OSError):
            return False

    def _send(self, channels: Sequence[str]) -> None:
        if self._connection is None:
            connection: Any = self._client.connection_pool.make_connection()
            connection.connect()
            self._connection = connection
        commands = [("PUBLISH", channel, b"1") for channel in channels]
        self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
        self._unanswered += len(channels)

    def _read_answers(self) -> None:
        while self._unanswered:
            self._unanswered -= 1
            self._connection.read_response()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._unanswered = 0
        if connection is not None:
            connection.disconnect()

    def _forget_parent(self) -> None:
        # The connection is the parent's, and a thread that held the lock does not exist here.
        self._lock = threading.Lock()
        self._connection = None
        self._unanswered = 0
