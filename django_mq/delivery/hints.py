"""Hints: the row is written at once, the wake-up of workers waits for the commit."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from django_mq.engine.decisions.dead_letters import EXPIRED, REJECTED, targets_of
from django_mq.errors import StoreError
from django_mq.notifications.base import WORKERS_TOPIC, News, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage, Times


class _AfterCommit:
    """The hints of one transaction: one call of each kind, however many messages."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.topics: set[str] = set()
        self.news: dict[str, News] = {}

    def add(self, topics: Iterable[str], news: dict[str, News]) -> None:
        self.topics.update(topics)
        for name, item in news.items():
            self.news[name] = combined(self.news[name], item) if name in self.news else item

    def __call__(self) -> None:
        if self.news:
            notifier().announce(self.news, may_wait=True, over=self._store)
        if self.topics:
            notifier().send(self.topics, over=self._store)


def hint(queue_names: Iterable[str], *, using: str) -> None:
    """Wake all workers of these queues, after the commit of the transaction that is open on ``using``, if any."""
    _after_commit({queue_topic(name) for name in queue_names}, {}, shared_store(using))


def tell_workers(*, using: str) -> None:
    """Have all workers renew their sessions after the commit, and so read their commands."""
    _after_commit({WORKERS_TOPIC}, {}, shared_store(using))


def announce(messages: Sequence[NewMessage], store: Store) -> None:
    """Wake as many workers as messages were published, after the commit of the store's transaction."""
    if store.database.in_transaction:
        _after_commit((), news_of(messages), store)
    elif messages:
        notifier().announce(news_of(messages), may_wait=True, over=store)


def announce_batch(like: NewMessage, count: int, store: Store, times: Times | None = None) -> None:
    """Do the same for so many messages like this one, with other times if given."""
    if times is None:
        one = _news(like)
        news = replace(one, messages=one.messages * count)
    else:
        now = time.time_ns() // 1000
        later = [at for at in times.deliver_at if at is not None and at > now]
        news = News(count - len(later), (min(later) - now) / 1_000_000 if later else None)
    _after_commit((), {like.queue_name: news}, store)


def announce_count(queue: str, messages: int, *, using: str) -> None:
    """Wake as many workers of the queue as there are messages, after the commit on ``using``."""
    _after_commit((), {queue: News(messages=messages)}, shared_store(using))


def announce_ended(queues: Iterable[str], store: Store, *, dead: int = 0, expired: int = 0) -> None:
    """Wake as many workers of the queues to which the queues send dead and expired messages as messages ended.

    It is not known which queue had which message, so workers of each target are woken. Never raises a StoreError.
    """
    ended = [(reason, count) for reason, count in ((REJECTED, dead), (EXPIRED, expired)) if count]
    find = cache(store.exchanges.find)
    try:
        records = [record for name in queues if (record := store.queues.find(name))]
        news = {
            target: News(messages=count)
            for record in records
            for reason, count in ended
            for target in targets_of(record.name, record, reason, find)
        }
    except StoreError:
        return  # a hint may be lost
    if news:
        notifier().announce(news, over=store)


def news_of(messages: Sequence[NewMessage]) -> dict[str, News]:
    """Return the news of each queue."""
    if len(messages) == 1:  # by far the most frequent
        return {messages[0].queue_name: _news(messages[0])}
    ready: Counter[str] = Counter()
    news: dict[str, News] = {}
    for message in messages:
        name, item = message.queue_name, _news(message)
        if item is READY:
            ready[name] += 1
        else:
            news[name] = combined(news.get(name, NOTHING), item)
    return news | {name: combined(news.get(name, NOTHING), News(messages=count)) for name, count in ready.items()}


NOTHING = News()
#: A message that may be claimed at once.
READY = News(messages=1)


def _news(message: NewMessage) -> News:
    seconds = message.delay_seconds
    if message.deliver_at is not None:
        seconds = (message.deliver_at - clock.now()).total_seconds()
    return READY if not seconds or seconds <= 0 else News(due_seconds=seconds)


def combined(one: News, other: News) -> News:
    """Return both as one."""
    dues = [due for due in (one.due_seconds, other.due_seconds) if due is not None]
    return News(one.messages + other.messages, min(dues) if dues else None, one.back or other.back)


def _after_commit(topics: Iterable[str], news: dict[str, News], store: Store) -> None:
    """Send now, or when the open transaction commits; never if it is rolled back."""
    waiting = store.database.last_after_commit()
    # Django drops the callbacks of a savepoint that is rolled back. Adding to the last one that is left can only
    # wake a worker in vain.
    if isinstance(waiting, _AfterCommit):
        waiting.add(topics, news)
        return
    callback = _AfterCommit(store)
    callback.add(topics, news)
    store.database.after_commit(callback)
