"""Follow a queue: show every message that arrives once, and miss none.

Arrival numbers are given before transactions commit, so a lower number may appear after a higher one. The follower
therefore keeps a floor, and reads again from there at each look, skipping what it has shown. The floor rises to a
number when all transactions that may have been given a number up to it have ended, and after one more look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.consumer.runtime import MARKER_SECONDS, poll_seconds
from django_mq.delivery.queues import may_declare, record_of
from django_mq.notifications.base import Wake, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed

#: Messages read by one statement.
PAGE = 200


class Follower:
    """How far one reader has seen the arrivals of a queue."""

    def __init__(self, store: Store, queue: str, *, from_tail: bool = False) -> None:
        self._store = store
        self._queue = queue
        # Everything up to here was shown, or is not to be shown; and what was shown beyond it.
        self._floor = store.browser.last_arrival() if from_tail else 0
        self._shown: set[int] = set()
        # Where the floor may rise to, and the transactions that must end first.
        self._aim: int | None = None
        self._open: frozenset[str] = frozenset()

    def look(self) -> Iterator[Browsed]:
        """Yield what has arrived and was never shown, in the order of arrival as far as it is committed."""
        if self._aim is not None:
            self._open = self._store.browser.unfinished(self._open, after=self._floor, last=self._aim)
        yield from self._unseen()
        if self._aim is not None and not self._open:
            self._floor, self._aim = self._aim, None
            self._shown = {number for number in self._shown if number > self._floor}
        if self._aim is None:
            # The number first: a transaction that begins later gets a higher one.
            self._aim = self._store.browser.last_arrival()
            self._open = self._store.browser.unfinished(None, after=self._floor, last=self._aim)

    def _unseen(self) -> Iterator[Browsed]:
        after = self._floor
        while page := self._store.browser.arrivals(self._queue, after=after, limit=PAGE):
            for message in page:
                if message.id not in self._shown:
                    self._shown.add(message.id)
                    yield message
            after = page[-1].id


def follow(queue: str, *, from_tail: bool = False, using: str | None = None) -> Iterator[Browsed]:
    """Yield the messages of the queue and those that arrive, once each, without end.

    With ``from_tail``, only those that arrive after the first look are yielded.
    It has a connection of its own until it is closed. A declared queue that was never used has no messages yet.
    Raises UnknownQueue and StoreError.
    """
    store = private_store(using or conf.load().DATABASE)
    wake = Wake()
    listener = notifier().listen(wake)
    try:
        if not may_declare(queue):
            record_of(store, queue)
        listener.subscribe([queue_topic(queue)])
        follower = Follower(store, queue, from_tail=from_tail)
        while True:
            yield from follower.look()
            wake.wait(MARKER_SECONDS if store.features.notices_changes else poll_seconds(store, listener))
            wake.take_topics()
    finally:
        listener.close()
        wake.close()
        store.close()
