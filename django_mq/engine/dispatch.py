"""Which ready entry goes to which consumer.

Nothing is pushed: a consumer is told that there may be work, and pulls. The rules, after
Qpid's redesign of its delivery:

- an arriving entry wakes at most one competing consumer, and none that is awake already;
- a consumer that was woken pulls until it is answered None; then, if entries remain, another
  is woken in its stead ("the notified consumer did not do the work");
- a consumer whose credit or interest ends is marked so first, and only then is the next one
  woken; the other way round, it would still be judged to be in the way;
- a consumer may take only the first entry it wants: if a better consumer is in the way or its
  credit does not suffice, it gets nothing, and does not look at later entries.
"""

import sys
from typing import TYPE_CHECKING

from django_mq.engine.consumer import BLOCKED, NON_ACQUIRING, NOT_INTERESTED, NOTIFIED, REMOVED, Consumer
from django_mq.engine.consumers import Consumers
from django_mq.engine.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.lists.base import EntryList
    from django_mq.engine.view import View


class Dispatch:
    """The ready entries, the consumers, and who is told of what."""

    __slots__ = ("consumers", "paused", "ready")

    def __init__(self, ready: "EntryList") -> None:
        self.ready = ready
        self.consumers = Consumers()
        self.paused = False

    def stand(self, entry: Entry) -> None:
        """Put a ready entry in its place, and wake one consumer for it."""
        consumers = self.consumers
        self.ready.add(entry)
        if consumers.views:
            self._show_arrival(entry)
        if consumers.blocked:
            self._unblock_behind(entry)
        if not self.paused:
            consumer = consumers.to_wake(entry)
            if consumer is not None:
                self._wake(consumer)

    def _show_arrival(self, entry: Entry) -> None:
        for browser, view in self.consumers.views.items():
            view.arrived(entry)
            if browser.interest is NON_ACQUIRING and not (self.paused or entry.redelivered):
                browser.wake(browser)

    def _unblock_behind(self, entry: Entry) -> None:
        # A consumer stuck at a large entry may be able to afford what now stands before it.
        for consumer in list(self.consumers.blocked):
            if consumer.waiting_for is not None and entry.order < consumer.waiting_for.order:
                self.consumers.become_interested(consumer)

    def _wake(self, consumer: Consumer) -> None:
        self.consumers.become_notified(consumer)
        consumer.wake(consumer)

    def leave(self, entry: Entry) -> bool:
        """Take an entry out of the line; False if it was not there."""
        if not self.ready.remove(entry):
            return False
        consumers = self.consumers
        if consumers.views:
            self._hide_departure(entry)
        if consumers.blocked:
            self._unblock_at(entry)
        return True

    def _hide_departure(self, entry: Entry) -> None:
        for view in self.consumers.views.values():
            view.left(entry)

    def _unblock_at(self, entry: Entry) -> None:
        for consumer in list(self.consumers.blocked):
            if consumer.waiting_for is entry:
                self._wake(consumer)

    def claim_for(self, consumer: Consumer) -> Entry | None:
        """Give the consumer the first entry it wants, if it may have it; else None."""
        if consumer.interest is NOT_INTERESTED or consumer.interest is REMOVED:
            return None
        if consumer.view is not None:
            return self._show_next(consumer, consumer.view)
        entry = None if self.paused else self._first_wanted(consumer)
        if entry is None or self.consumers.above(consumer, entry):
            self._stop_pulling(consumer)
            return None
        if not consumer.credit.take(entry.message.size):
            self.consumers.block(consumer, entry)
            self.hand_over()
            return None
        self.leave(entry)
        entry.claim(consumer)
        consumer.unsettled[entry] = entry.claim_number
        self._keep_pulling(consumer)
        return entry

    def _first_wanted(self, consumer: Consumer) -> Entry | None:
        entry = self.ready.head()
        while entry is not None and not consumer.wants(entry):
            entry = self.ready.next(entry)
        return entry

    def _stop_pulling(self, consumer: Consumer) -> None:
        if consumer.interest is NOTIFIED:
            self.consumers.become_interested(consumer)
        self.hand_over()

    def _keep_pulling(self, consumer: Consumer) -> None:
        if not consumer.credit.is_open:
            self.consumers.rest(consumer)
            self.hand_over()
        elif consumer.interest is not NOTIFIED:
            self.consumers.become_notified(consumer)

    def _show_next(self, browser: Consumer, view: "View") -> Entry | None:
        entry = None if self.paused else view.next_in(self.ready)
        if entry is None or not browser.credit.take(entry.message.size):
            return None
        view.saw(entry)
        browser.unsettled[entry] = entry.claim_number
        if not browser.credit.is_open:
            self.consumers.rest(browser)
        return entry

    def heads(self) -> "Iterator[Entry]":
        """The first ready entry of each level that has one."""
        entry = self.ready.head()
        while entry is not None:
            yield entry
            # Behind the last place a level can have stands the next level.
            entry = self.ready.next(Entry(entry.message, level=entry.level, place=sys.maxsize))

    def wanted(self, most: int) -> int:
        """How many more entries these consumers could have, at most ``most``."""
        if self.paused:
            return 0
        waiting = len(self.ready)
        free = 0
        for consumer in self.consumers.in_turn():
            more = consumer.credit.free
            if more is None:
                return max(0, most - waiting)
            free += more
        return max(0, min(most, free - waiting))

    def next_in_turn(self) -> Consumer | None:
        """The consumer that may have an entry now: highest priority, then longest idle."""
        if not self.paused:
            for consumer in self.consumers.in_turn():
                entry = self._first_wanted(consumer)
                if entry is not None and consumer.credit.allows(entry.message.size):
                    if consumer.interest is NOTIFIED:
                        self.consumers.become_notified(consumer)  # the last of those awake
                    return consumer
        self._send_to_sleep()
        return None

    def _send_to_sleep(self) -> None:
        # As if each had pulled in vain: what comes next must wake them.
        for consumer in list(self.consumers.in_turn()):
            self.claim_for(consumer)

    def refresh(self, consumer: Consumer) -> None:
        """Its credit or its wish for work may have changed: sort it in, and wake whom it concerns."""
        if consumer.interest is REMOVED:
            return
        if not consumer.desires_work:
            self._withdraw(consumer)
        elif consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            self.consumers.become_interested(consumer)
            self._tell(consumer)

    def _withdraw(self, consumer: Consumer) -> None:
        if consumer.interest is not NOT_INTERESTED:
            self.consumers.rest(consumer)
            self.hand_over()

    def _tell(self, consumer: Consumer) -> None:
        if consumer.view is None:
            self.hand_over()
        elif not self.paused and consumer.view.next_in(self.ready) is not None:
            consumer.wake(consumer)

    def resume(self) -> None:
        """Deliver again: wake as many consumers as there are entries for."""
        self.paused = False
        for browser in self.consumers.browsers:
            self._tell(browser)
        while self.hand_over():
            pass

    def hand_over(self) -> bool:
        """Wake one more consumer if more entries are ready than consumers are awake."""
        if self.paused or self.consumers.awake >= len(self.ready):
            return False
        for consumer in self.consumers.idle():
            entry = self._first_wanted(consumer)
            if entry is not None and not self.consumers.above(consumer, entry):
                self._wake(consumer)
                return True
        return False
