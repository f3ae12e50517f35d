"""Hints between processes, through Redis.

Who is interested in a queue's news stands in Redis; a publisher's script takes as many of
them as there are messages and tells each on a channel of its own. What concerns everybody
goes to a channel per topic. ``{PREFIX}`` with its braces is a hash tag: all keys are in one
slot. Every key ends by itself, so the dead leave nothing behind:

    {django_mq}:session:ID         a session is interested; ends with its interest, after four safety polls at most
    {django_mq}:interested:orders  sorted set of sessions, best first; who has no key above is passed over
    {django_mq}:notified:orders    sorted set of the told that have not answered, by the end of our patience
    {django_mq}:missed:orders      moves when news finds nobody: whoever goes to sleep next looks first
    {django_mq}:armed:orders       when something is due, and which session will look then

    django_mq:s:ID         channel: "MISSED n:QUEUE", a notice to one session
    django_mq:q:orders     channel: look, everybody (a resumed queue; Redis was emptied, or takes no scripts)
    django_mq:v:NODE.pidbox  channel: a volatile message for this queue

Everything asked of Redis, by publishers and by sessions, is behind one breaker. Listening
has a thread of its own, see ``listening.py``.
"""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, NoScriptError
from redis.retry import Retry

from django_mq.notifications.base import Notifier, notice_topic, queue_topic
from django_mq.notifications.breaker import Breaker
from django_mq.notifications.gathering import MOMENT_SECONDS, Gathering
from django_mq.notifications.listening import KEEP_MS, RedisListener
from django_mq.notifications.posting import Post, Poster
from django_mq.notifications.scripts import script

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.notifications.base import News, Wake

logger = logging.getLogger("django_mq.notifications")

#: A session that was told and neither answers nor sleeps again within so long, in milliseconds, is passed over.
ANSWER_MS = 2000


class RedisNotifier(Notifier):
    """Announces news and publishes topics, quickly or not at all."""

    reaches_others = True

    def __init__(self, url: str, *, prefix: str, timeout_seconds: float, interest_seconds: float = 20.0) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self.prefix = prefix
        #: A session's interest lasts so long unless renewed.
        self.interest_seconds = interest_seconds
        self._client: Any = redis.Redis.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            # The client would try a dead server several times, a publisher waiting.
            retry=Retry(NoBackoff(), 0),
        )
        self._gathering = Gathering(self._announce)
        self._poster = Poster(self._client, greeting=[script("announce").load()])
        self._breaker = Breaker()

    def send(self, topics: Iterable[str]) -> None:
        self._try_to_post([Post(self._publish(topic)) for topic in topics])

    def announce(self, news: Mapping[str, News], *, may_wait: bool = False) -> None:
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
            self._give_up(error)
            return False
        return True

    def _announce(self, news: Mapping[str, News]) -> None:
        answered = partial(self._gathering.answered, tuple(news), time.monotonic())
        arguments: list[object] = [part for name, item in news.items() for part in _told(name, item)]
        arguments[:0] = self.prefix, ANSWER_MS, KEEP_MS
        # A Redis that may not write, or takes no scripts, still carries hints: to everybody.
        plain = [self._publish(queue_topic(name)) for name in news]
        announce = script("announce")
        self._try_to_post([Post(announce.call(*arguments), announce.call_in_full(*arguments), plain, answered)])

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
            self._give_up(error)
        else:
            self._breaker.succeeded()

    def _execute(self, post: Post) -> None:
        try:
            answer = self._client.execute_command(*post.command)
        except redis.ConnectionError:
            raise
        except redis.ResponseError as error:
            for other in post.instead(error):
                self._execute(other)
        else:
            post.tell(answer)

    def ask(self, name: str, *arguments: object, numbers: int) -> list[int] | None:
        """Run a script for a session and return its answer, which is so many whole numbers.

        Return None while Redis cannot be asked, or answers with anything else. Never raises.
        """
        if not self._breaker.lets_through(self._timeout_seconds):
            return None
        try:
            answer = self._run(name, arguments)
            answer = answer if isinstance(answer, list) else [answer]
            if len(answer) != numbers or any(type(number) is not int for number in answer):
                raise InvalidResponse(f"the answer to {name!r} is malformed")  # noqa: TRY301 - as any failure
        except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            self._give_up(error)
            return None
        self._breaker.succeeded()
        return answer

    def _run(self, name: str, arguments: Sequence[object]) -> Any:
        try:
            return self._client.execute_command(*script(name).call(self.prefix, *arguments))
        except NoScriptError:
            return self._client.execute_command(*script(name).call_in_full(self.prefix, *arguments))

    def _give_up(self, error: Exception) -> None:
        pause = self._breaker.failed()
        logger.warning("Redis cannot be used, hints are dropped for %.1f s: %s", pause, error)

    def trouble(self) -> str:
        # Patient with itself, unlike a publisher, and whatever the breaker remembers.
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
            delivered = heard is not None and heard["type"] == "message"
        except Exception as error:  # noqa: BLE001 - the client raises errors of many kinds for malformed replies
            return str(error) or type(error).__name__
        return "" if delivered else "Redis answers, but the hint is not delivered."

    def listen(self, wake: Wake) -> RedisListener:
        return RedisListener(self, self._url, wake)


def _told(name: str, news: News) -> tuple[object, ...]:
    due = -1 if news.due_seconds is None else ceil(max(0.0, news.due_seconds) * 1000)
    return (name, news.messages, due, notice_topic("", back=news.back)[0])
