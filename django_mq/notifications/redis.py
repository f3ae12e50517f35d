"""Hints between processes, through Redis.

Redis knows the idle sessions of each queue. A publisher's script takes as many of them as there are messages and
notifies each on a channel of its own. A topic has one channel for all listeners. ``{PREFIX}`` with its braces is a
hash tag: all keys are in one slot. Every key expires, so dead sessions leave nothing behind:

    {django_mq}:session:ID         a session is registered as idle; kept for four safety polls at most
    {django_mq}:idle:orders        sorted set of sessions, best first; one without the key above is passed over
    {django_mq}:notified:orders    sorted set of notified sessions that have not answered, by their time limit
    {django_mq}:missed:orders      grows when news finds no idle session: the next one that registers looks first
    {django_mq}:armed:orders       when a message is due, and which session will look then

    django_mq:s:ID         channel: "MISSED n:QUEUE", a notification to one session
    django_mq:q:orders     channel: all sessions look (a resumed queue; Redis was emptied, or takes no scripts)
    django_mq:v:NODE.pidbox  channel: a volatile message for this queue

One breaker guards all commands of publishers and sessions. ``RedisListener`` listens in a thread of its own.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha1
from importlib import resources
from math import ceil
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, NoScriptError
from redis.retry import Retry

from django_mq.engine.decisions.backoff import Backoff
from django_mq.notifications.base import (
    Listener,
    Notifier,
    Registration,
    notification_topic,
    queue_of,
    queue_topic,
)
from django_mq.notifications.gathering import MOMENT_SECONDS, Breaker, Gathering
from django_mq.outages import Outage
from django_mq.process import at_fork
from django_mq.seams.findings import ok, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from django_mq.notifications.base import News, Wake
    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.notifications")

#: A notified session that does not answer within so long, in milliseconds, is passed over.
ANSWER_MS = 2000


#: How to mend hints through Redis.
MEND = (
    "Start Redis, correct DJANGO_MQ['REDIS_URL'], or allow its user the keys and channels of django_mq. Until then"
    " messages are only found a little later."
)
#: What an outage costs, for the log.
LOST = "; hints are dropped, workers look regularly instead"


class RedisNotifier(Notifier):
    """Announces news and publishes topics, quickly or not at all."""

    reaches_others = True

    def __init__(
        self, url: str, *, prefix: str, timeout_seconds: float, registration_seconds: float = 20.0
    ) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self.prefix = prefix
        #: How long a registration lasts unless it is renewed.
        self.registration_seconds = registration_seconds
        self._client: Any = redis.Redis.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            # By default the client tries a dead server several times, and the publisher waits.
            retry=Retry(NoBackoff(), 0),
        )
        self._gathering = Gathering(self._announce)
        self._poster = Poster(self._client, greeting=[("SCRIPT", "LOAD", script("announce").text)])
        self._breaker = Breaker()
        #: The notifier and the listeners log it together.
        self.outage = Outage("Redis", logger)

    def send(self, topics: Iterable[str], *, over: Store | None = None) -> None:  # noqa: ARG002
        self._try_to_post([Post(self._publish(topic)) for topic in topics])

    def announce(
        self,
        news: Mapping[str, News],
        *,
        may_wait: bool = False,
        over: Store | None = None,  # noqa: ARG002
    ) -> None:
        in_burst = may_wait and self._poster.seconds_since_post() < MOMENT_SECONDS
        # What was answered within the moment says whether this may wait.
        if in_burst and self._caught_up() and self._gathering.keep(news):
            return
        self._announce(self._gathering.with_kept(news))
        if may_wait and not in_burst:
            self._caught_up()  # after a pause the hint goes first, and is not kept up by old answers

    def _caught_up(self) -> bool:
        try:
            self._poster.catch_up()
        except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            self._give_up(error, self._poster)
            return False
        return True

    def _announce(self, news: Mapping[str, News]) -> None:
        answered = partial(self._gathering.answered, tuple(news), time.monotonic())
        arguments: list[object] = [part for name, item in news.items() for part in _arguments(name, item)]
        arguments[:0] = self.prefix, ANSWER_MS, KEEP_MS
        # A Redis that refuses writes or scripts still carries hints, to all listeners.
        plain = [self._publish(queue_topic(name)) for name in news]
        self._try_to_post([script("announce").post(*arguments, if_refused=plain, answered=answered)])

    def _publish(self, topic: str) -> tuple[object, ...]:
        return ("PUBLISH", f"{self.prefix}:{topic}", b"1")

    def _try_to_post(self, posts: Sequence[Post]) -> None:
        if not self._breaker.lets_through(self._timeout_seconds):
            return
        try:
            if not self._poster.post(posts):
                for post in posts:
                    self._execute(post)
        except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            self._give_up(error, self._poster)
        else:
            self._succeed(self._poster)

    def _execute(self, post: Post) -> Any:
        """Run the command, or what is to be sent instead, and return the last answer."""
        try:
            answer = self._client.execute_command(*post.command)
        except redis.ConnectionError:
            raise
        except redis.ResponseError as error:
            answers = [self._execute(other) for other in post.instead(error)]
            return answers[-1]
        post.answered(answer)
        return answer

    def ask(self, name: str, *arguments: object, numbers: int) -> list[int] | None:
        """Run a script for a session and return its answer, which is so many whole numbers.

        Return None while Redis cannot be asked, or answers with anything else. Never raises.
        """
        if not self._breaker.lets_through(self._timeout_seconds):
            return None
        try:
            answer = self._execute(script(name).post(self.prefix, *arguments))
            answer = answer if isinstance(answer, list) else [answer]
            if len(answer) != numbers or any(type(number) is not int for number in answer):
                raise InvalidResponse(f"the answer to {name!r} is malformed")  # noqa: TRY301 - as any failure
        except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            self._give_up(error, self)
            return None
        self._succeed(self)
        return answer

    def _give_up(self, error: Exception, part: object) -> None:
        self._breaker.failed()
        self.outage.failed(part, error, LOST)

    def _succeed(self, part: object) -> None:
        self._breaker.succeeded()
        self.outage.succeeded(part)

    def findings(self) -> Iterator[Finding]:
        """Send a hint to this process through Redis, and register for hints as a worker does."""
        if error := self.problem():
            yield problem("redis", f"Hints do not work: {error}", MEND)
        else:
            yield ok("redis", "A hint went through Redis and came back, and a worker can register for hints.")

    def problem(self) -> str:
        """Return why hints do not work, or nothing."""
        # With more time than a publisher has, and past the breaker.
        channel = f"{self.prefix}:examination:{os.urandom(8).hex()}"
        try:
            with (
                redis.Redis.from_url(self._url, socket_timeout=2.0, socket_connect_timeout=2.0) as client,
                client.pubsub() as pubsub,
            ):
                pubsub.subscribe(channel)
                pubsub.get_message(timeout=2.0)
                client.publish(channel, b"1")
                heard = pubsub.get_message(timeout=2.0)
                # As a worker does, whose keys an ACL may not allow. No publisher has news of such a queue.
                session, shortly = os.urandom(8).hex(), 1000
                arguments = self.prefix, session, shortly, shortly, 0, -1, f"examination:{session}"
                client.eval(script("register_idle").text, 0, *arguments)
                client.eval(script("withdraw").text, 0, self.prefix, session)
            delivered = heard is not None and heard["type"] == "message"
        except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            return str(error) or type(error).__name__
        return "" if delivered else "Redis answers, but the hint is not delivered."

    def listen(self, wake: Wake) -> RedisListener:
        return RedisListener(self, self._url, wake)


def _arguments(name: str, news: News) -> tuple[object, ...]:
    due = -1 if news.due_seconds is None else ceil(max(0.0, news.due_seconds) * 1000)
    return (name, news.messages, due, notification_topic("", back=news.back)[0])


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the folder ``lua``, which Redis runs atomically: its text, and the digest that names it."""

    text: str
    digest: str

    def post(self, *arguments: object, **options: Any) -> Post:
        """Return the post that runs it. It makes its keys from the arguments."""
        in_full = ("EVAL", self.text, 0, *arguments)
        return Post(("EVALSHA", self.digest, 0, *arguments), if_forgotten=in_full, **options)


@cache
def script(name: str) -> Script:
    """Return the script of that name, with the part that all scripts share."""
    folder = resources.files("django_mq.notifications").joinpath("lua")
    text = "".join(folder.joinpath(f"{part}.lua").read_text("utf-8") for part in ("keys", name))
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


# Posts are commands that do not wait for their answers, which are read with a later post: a hint of a burst costs
# one system call, not a round trip, and an error is noticed a few posts later. A post after a pause waits for its
# answer, because the connection may have died meanwhile.

#: Posts this far apart, in seconds, are not a burst: each waits for its answer.
SELDOM_SECONDS = 0.5
#: With so many answers outstanding, they are read.
CROWD = 32
#: So many commands are remembered in their packed form.
KNOWN = 256

Command = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Post:
    """A command, and what to send if the server does not know its script, or refuses it."""

    command: Command
    if_forgotten: Command | None = None
    if_refused: Sequence[Command] = ()
    #: Called with the answer.
    answered: Callable[[Any], object] = lambda _: None

    def instead(self, error: redis.ResponseError) -> list[Post]:
        """Return what to send after this error. Raises it if there is nothing to send."""
        if isinstance(error, NoScriptError) and self.if_forgotten:
            return [Post(self.if_forgotten, if_refused=self.if_refused, answered=self.answered)]
        if not self.if_refused:
            raise error
        return [Post(command) for command in self.if_refused]


class Poster:
    """One connection for the posts of all threads, one thread at a time."""

    def __init__(self, client: redis.Redis, *, greeting: Sequence[Command] = ()) -> None:
        self._client = client
        # What each new connection sends first.
        self._greeting = greeting
        self._connection: Any = None
        self._unanswered: deque[Post] = deque()
        self._known: dict[Command, list[bytes]] = {}
        self._posted_at = -SELDOM_SECONDS
        self._lock = threading.Lock()
        at_fork(after_in_child=self._forget_parent)

    def post(self, posts: Sequence[Post]) -> bool:
        """Send each command; False, and nothing happens, while another thread posts.

        Raises RedisError and OSError, also for what went wrong with earlier posts.
        """
        return self._alone(partial(self._post, posts))

    def seconds_since_post(self) -> float:
        """Return how long ago the last post was."""
        return time.monotonic() - self._posted_at

    def catch_up(self) -> None:
        """Read the answers that have arrived. Raises as ``post`` does."""
        if self._unanswered:
            self._alone(self._read_what_came)

    def _alone(self, work: Callable[[], None]) -> bool:
        # It never waits for the lock: this thread may hold it, interrupted by a signal's handler.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            work()
        except BaseException:
            # Answers could no longer be matched with their posts.
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
        """Read the outstanding answers after a pause; False if the connection is dead."""
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
        """Return the packed command. Most hints repeat an earlier one."""
        known = self._known.get(command)
        if known is None:
            if len(self._known) >= KNOWN:
                self._known.clear()
            # In one piece: each piece is a system call.
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
            post.answered(answer)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        self._unanswered.clear()
        if connection is not None:
            connection.disconnect()

    def _forget_parent(self) -> None:
        # The connection is the parent's, and a thread of the parent may have held the lock.
        self._lock = threading.Lock()
        self._connection = None
        self._unanswered = deque()


#: Time between two tries to listen.
PAUSES = Backoff(base_seconds=0.1, multiplier=2.0, cap_seconds=5.0)
#: Longest wait for a message, in seconds: then the thread looks whether to stop.
LISTEN_SECONDS = 1.0
#: Unused keys are kept for so long, in milliseconds.
KEEP_MS = 3_600_000
#: The first part of a notification: how often news of the queue found no idle session.
DIGITS = re.compile(r"[0-9]{1,16}")


class RedisListener(Listener):
    """Registers one session as idle, and hears its hints in a thread. In a forked child it does nothing.

    After each reconnect it sets the wake: hints sent meanwhile are lost.
    """

    def __init__(self, notifier: RedisNotifier, url: str, wake: Wake) -> None:
        self._notifier = notifier
        self._url = url
        self._wake = wake
        self._name = os.urandom(8).hex()
        self._topics: frozenset[str] = frozenset()
        self._connected = False
        # Whether Redis took the last registration.
        self._known = True
        # How often each queue's news had found no idle session when this one last registered or was notified.
        self._seen: dict[str, int] = {}
        self._closing = threading.Event()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        # Other threads subscribe over it to changed topics.
        self._pubsub: Any = None
        # Reentrant: a signal's handler may cancel consumers in the middle of a subscription.
        self._lock = threading.RLock()

    def register_idle(
        self,
        queues: Collection[str],
        *,
        due_seconds: float | None = None,
        following: bool = False,
        priority: int = 0,
    ) -> Registration:
        self._known = False
        if not self._connected_here:
            return Registration(due_seconds=due_seconds)  # no notification can reach this session
        lasts = ceil(self._notifier.registration_seconds * 1000)
        due = _due(due_seconds, following=following)
        arguments = self._name, lasts, max(lasts, KEEP_MS), priority, due, *queues
        answer = self._notifier.ask("register_idle", *arguments, numbers=2 + len(queues))
        if answer is None:
            return Registration(due_seconds=due_seconds)
        self._known = True
        look, ask, *missed = answer
        return Registration(self._has_moved(dict(zip(queues, missed, strict=True))), _seconds(look), _seconds(ask))

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
        self._notifier.outage.leave(self)
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
        failures = 0
        while not self._closing.is_set():
            try:
                self._listen()
                failures = 0
            except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
                self._notifier.outage.failed(self, error, LOST)
            if self._connected:
                self._connected = False
                self._wake.set()  # ends a wait that was chosen while hints arrived
            failures += 1
            self._closing.wait(PAUSES.spread(failures))

    def _listen(self) -> None:
        with (
            redis.Redis.from_url(
                self._url, socket_connect_timeout=2.0, socket_timeout=10.0, health_check_interval=5
            ) as client,
            client.pubsub() as pubsub,
        ):
            with self._lock:
                pubsub.subscribe(*self._channels([self._own_topic, *self._topics]))
                # A session that registered before this could not be notified.
                if pubsub.get_message(timeout=2.0) is None:
                    raise TimeoutError("the subscription is not confirmed")
                self._pubsub, self._connected, self._known = pubsub, True, True
            self._notifier.outage.succeeded(self)
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
        missed, _, notification = _text(heard["data"]).partition(" ")
        queue = queue_of(notification)
        if not DIGITS.fullmatch(missed) or queue not in self._seen or notification not in _notifications_of(queue):
            self._wake.set()  # written by another program: look at everything
            return
        # Before the wake: the claim that follows brings what was missed until now.
        self._seen[queue] = int(missed)
        self._wake.set(notification)


def _notifications_of(queue: str) -> tuple[str, str]:
    return notification_topic(queue), notification_topic(queue, back=True)


def _text(value: bytes | str) -> str:
    # The URL may have the client decode; another program may send bytes that are no text.
    return value if isinstance(value, str) else value.decode(errors="replace")


def _due(seconds: float | None, *, following: bool) -> int:
    if following:
        return -2
    return -1 if seconds is None else ceil(max(0.0, seconds) * 1000)


def _seconds(milliseconds: int) -> float | None:
    return None if milliseconds < 0 else milliseconds / 1000
