"""Following a queue: every message that arrives is shown once, and none is missed.

Arrival numbers are given before transactions commit, so a lower one may come to light after a
higher one. The follower therefore keeps a floor, and reads again from there at each look:

    floor ── read again, what was shown is skipped ──> the last number given

The floor rises to a number when everybody who may have been given one up to it has finished, and
one more look has been taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.consumer.runtime import MARKER_SECONDS, poll_seconds
from django_mq.notifications.base import Wake, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed

#: Messages read by one statement.
PAGE = 200


class Follower:
    """One reader's way along the arrivals of a queue."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        #: Everything up to here was shown.
        self._floor = 0
        # What was shown beyond the floor.
        self._shown: set[int] = set()
        # Where the floor may rise to, and who must finish first.
        self._aim: int | None = None
        self._open: frozenset[str] = frozenset()

    def look(self) -> Iterator[Browsed]:
        """Yield what has arrived, and was never shown, in the order of arrival as far as it can be seen."""
        if self._aim is not None:
            self._open = self._store.unfinished(self._open, after=self._floor, last=self._aim)
        yield from self._unseen()
        if self._aim is not None and not self._open:
            self._rise(self._aim)
        if self._aim is None:
            # The number first: whoever takes one later gets a later one.
            self._aim = self._store.last_arrival()
            self._open = self._store.unfinished(None, after=self._floor, last=self._aim)

    def _unseen(self) -> Iterator[Browsed]:
        after = self._floor
        while page := self._store.arrivals(self._queue, after=after, limit=PAGE):
            for message in page:
                if message.id not in self._shown:
                    self._shown.add(message.id)
                    yield message
            after = page[-1].id

    def _rise(self, floor: int) -> None:
        self._floor, self._aim = floor, None
        self._shown = {number for number in self._shown if number > floor}


def follow(queue: str, *, using: str | None = None) -> Iterator[Browsed]:
    """Yield what is in the queue and whatever arrives, each once, without end. Raises UnknownQueue and StoreError.

    It has a connection of its own, until it is closed.
    """
    store = private_store(using or conf.load().DATABASE)
    wake = Wake()
    listener = notifier().listen(wake)
    try:
        if store.queue(queue) is None:
            raise no_such_queue(queue)
        listener.subscribe([queue_topic(queue)])
        follower = Follower(store, queue)
        while True:
            yield from follower.look()
            wake.wait(MARKER_SECONDS if store.features.notices_changes else poll_seconds(store, listener))
            wake.take_topics()
    finally:
        listener.close()
        wake.close()
        store.close()
