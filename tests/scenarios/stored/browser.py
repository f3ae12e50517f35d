"""A browsing consumer of a stored queue: it is shown each message once, and takes none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.states import READY

if TYPE_CHECKING:
    from django_mq.engine.selector import Selector
    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed


class StoredBrowser:
    """How far one browser has seen a queue: in order, as ``django_mq.api.browse`` reads it, again and again.

    At the end of the queue it has passed everything that had arrived when it began, held messages too.
    """

    def __init__(self, store: Store, queue: str, *, from_tail: bool, selector: Selector | None) -> None:
        self._store = store
        self._queue = queue
        self._selector = selector
        # Arrivals up to here have been passed; of the later ones, these were shown.
        self._passed = store.browser.last_arrival() if from_tail else 0
        self._shown: set[int] = set()
        # Of the look that is under way: the last arrival when it began, and the last message that was read.
        self._newest: int | None = None
        self._last: Browsed | None = None

    def next(self) -> Browsed | None:
        """Return the next message, or None at the end of the queue."""
        while self._newest is not None or self._store.browser.last_arrival() > self._passed:
            if self._newest is None:
                self._newest, self._last = self._store.browser.last_arrival(), None
            if (found := self._look()) is not None:
                return found
            self._passed, self._newest = self._newest, None
            self._shown = {number for number in self._shown if number > self._passed}
        return None

    def _look(self) -> Browsed | None:
        while page := self._store.browser.browse(self._queue, states=[READY], limit=1, after=self._last):
            [self._last] = page
            if self._last.id > self._passed and self._last.id not in self._shown and self._wants(self._last):
                self._shown.add(self._last.id)
                return self._last
        return None

    def _wants(self, message: Browsed) -> bool:
        return self._selector is None or self._selector.matches(message.as_message())
