"""Posts commands to Redis without waiting for the answers, which are read together with a later post.

A burst of hints costs one system call each instead of a round trip. An answer that is an
error, or does not come, is noticed a few posts later: hints are only hints. Whoever posts
seldom waits for the answer, because a connection that died of old age must not swallow
the only hint.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import NoScriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Posts this far apart, in seconds, are not a burst: each waits for its answer.
SELDOM_SECONDS = 0.5
#: So many answers are outstanding at most; then they are read.
CROWD = 32
#: So many commands are remembered in the form in which they travel.
KNOWN = 256

Command = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Post:
    """A command, what to send where the server has forgotten its script, and what where it refuses it."""

    command: Command
    if_forgotten: Command | None = None
    if_refused: Sequence[Command] = ()
    #: Called with the answer, by whoever reads it.
    answered: Callable[[Any], None] | None = None

    def tell(self, answer: Any) -> None:
        """Pass the answer on to whoever wants it."""
        if self.answered is not None:
            self.answered(answer)

    def instead(self, error: redis.ResponseError) -> list[Post]:
        """Return what to send after this error. Raises it where there is nothing else."""
        if isinstance(error, NoScriptError) and self.if_forgotten:
            return [Post(self.if_forgotten, if_refused=self.if_refused, answered=self.answered)]
        if not self.if_refused:
            raise error
        return [Post(command) for command in self.if_refused]


class Poster:
    """One connection for the hints of all threads, each of which finds it free or goes another way."""

    def __init__(self, client: redis.Redis, *, greeting: Sequence[Command] = ()) -> None:
        self._client = client
        # What each new connection sends first.
        self._greeting = greeting
        self._connection: Any = None
        self._unanswered: deque[Post] = deque()
        self._known: dict[Command, list[bytes]] = {}
        self._posted_at = -SELDOM_SECONDS
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget_parent)

    def post(self, posts: Sequence[Post]) -> bool:
        """Send each command; False, and nothing happens, while another thread posts.

        Raises RedisError and OSError, also for what went wrong with earlier posts.
        """
        return self._alone(partial(self._post, posts))

    def seconds_since_post(self) -> float:
        """Return how long ago the last post was."""
        return time.monotonic() - self._posted_at

    def catch_up(self) -> None:
        """Read the answers that have come, waiting for none. Raises as ``post`` does."""
        if self._unanswered:
            self._alone(self._read_what_came)

    def _alone(self, work: Callable[[], None]) -> bool:
        # Never waited for: its owner may be what a signal's handler has interrupted.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            work()
        except BaseException:
            # Answers could no longer be told apart.
            self._hang_up()
            raise
        finally:
            self._lock.release()
        return True

    def _post(self, posts: Sequence[Post]) -> None:
        now = time.monotonic()
        seldom = now - self._posted_at >= SELDOM_SECONDS
        self._posted_at = now
        if seldom and self._connection is not None and not self._answers_so_far():
            self._hang_up()
        self._send(posts)
        if seldom or len(self._unanswered) >= CROWD:
            self._read_answers()

    def _answers_so_far(self) -> bool:
        """Read what is outstanding after a pause; False if the connection did not survive it."""
        try:
            self._read_answers()
            return not self._connection.can_read(timeout=0)
        except (redis.ConnectionError, OSError):
            return False

    def _send(self, posts: Sequence[Post]) -> None:
        if self._connection is None:
            connection: Any = self._client.connection_pool.make_connection()
            connection.connect()
            self._connection = connection
            posts = [*(Post(command, if_refused=[("PING",)]) for command in self._greeting), *posts]
        packed = [part for post in posts for part in self._packed(post.command)]
        self._connection.send_packed_command(packed, check_health=False)
        self._unanswered.extend(posts)

    def _packed(self, command: Command) -> list[bytes]:
        """Return the command as it travels. Most hints repeat an earlier one to the letter."""
        known = self._known.get(command)
        if known is None:
            if len(self._known) >= KNOWN:
                self._known.clear()
            # In one piece: the client would part it, and each piece is a system call.
            known = self._known[command] = [b"".join(self._connection.pack_command(*command))]
        return known

    def _read_answers(self) -> None:
        while self._unanswered:
            self._read_answer()

    def _read_what_came(self) -> None:
        while self._unanswered and self._connection.can_read(timeout=0):
            self._read_answer()

    def _read_answer(self) -> None:
        post = self._unanswered.popleft()
        try:
            answer = self._connection.read_response()
        except redis.ConnectionError:
            raise
        except redis.ResponseError as error:
            self._send(post.instead(error))
        else:
            post.tell(answer)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._unanswered.clear()
        if connection is not None:
            connection.disconnect()

    def _forget_parent(self) -> None:
        # The connection is the parent's, and a thread that held the lock does not exist here.
        self._lock = threading.Lock()
        self._connection = None
        self._unanswered = deque()
