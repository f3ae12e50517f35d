"""Which ready entry goes to which consumer.

A consumer may take only the first entry it wants: if a better consumer is in the way or its
credit does not suffice, it gets nothing, and does not look at later entries.
"""

from typing import TYPE_CHECKING

from django_mq.engine.consumer import BLOCKED, NOT_INTERESTED, NOTIFIED, REMOVED, Consumer
from django_mq.engine.expiry import is_expired
from django_mq.engine.states import CLAIMED
from django_mq.engine.view import View
from django_mq.engine.waking import Waking

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.entry import Entry
    from django_mq.engine.lists.base import EntryList


class Dispatch(Waking):
    """Gives ready entries to those who pull.

    ``expire`` is called with a ready entry whose time has passed, and takes it out; not where they
    are delivered.
    """

    __slots__ = ("_delivers_expired", "_expire")

    def __init__(
        self, ready: "EntryList", expire: "Callable[[Entry], None]", *, delivers_expired: bool = False
    ) -> None:
        super().__init__(ready)
        self._expire = expire
        self._delivers_expired = delivers_expired

    def subscribe(self, consumer: Consumer) -> bool:
        """Add a consumer, with a position if it needs one; False if it is subscribed already."""
        if not self.consumers.add(consumer):
            return False
        self.give_position_if_needed(consumer)
        return True

    def give_position_if_needed(self, consumer: Consumer) -> None:
        """As ``give_position``, for a consumer that may pass something over."""
        if consumer.browser or consumer.picky or consumer.from_tail or self.consumers.groups is not None:
            self.give_position(consumer)

    def give_position(self, consumer: Consumer) -> None:
        """Let a consumer remember what it has passed over, unless it does already."""
        if consumer.view is None:
            consumer.plain = False
            view = View(self.ready, again=not consumer.browser, from_tail=consumer.from_tail)
            self.consumers.give_position(consumer, view)

    def claim_head(self, consumer: Consumer, now: float) -> "Entry | None":
        """As ``claim_for``, for a plain consumer: the way of nearly every message, without its calls."""
        entry = None if self.halted else self.ready.head()
        interest = consumer.interest
        if (
            entry is None
            or entry.expires_at is not None
            or consumer.priority < self.consumers.top_priority
            or interest is NOT_INTERESTED
            or not consumer.credit.take(entry.message.size)
        ):
            return self.claim_for(consumer, now)
        self.ready.remove(entry)
        if self.consumers.looking_back or self.consumers.blocked:
            self._after_leaving(entry)
        entry.state = CLAIMED
        entry.owner = consumer
        entry.attempts += 1
        entry.claim_number += 1
        consumer.unsettled[entry] = entry.claim_number
        if interest is not NOTIFIED or not consumer.credit.is_open:
            self._keep_pulling(consumer)
        return entry

    def claim_for(self, consumer: Consumer, now: float) -> "Entry | None":
        """Give the consumer the first entry it wants, if it may have it; else None."""
        if consumer.interest is NOT_INTERESTED or consumer.interest is REMOVED:
            return None
        if consumer.browser:
            return self._show_next(consumer, now)
        entry = None if self.halted else self.first_wanted(consumer, now)
        if entry is None or (
            consumer.priority < self.consumers.top_priority and self.consumers.above(consumer, entry)
        ):
            self.stop_pulling(consumer)
            return None
        if not consumer.credit.take(entry.message.size):
            self.consumers.block(consumer, entry)
            self.hand_over()
            return None
        self.take(consumer, entry)
        return entry

    def take(self, consumer: Consumer, entry: "Entry") -> None:
        """Claim a ready entry for a consumer whose credit is taken already."""
        self.hold(consumer, entry)
        if self.consumers.groups is not None:
            entry.opens_group = self.consumers.groups.taken(consumer, entry)
            if entry.opens_group and self.consumers.blocked:
                self._unblock_outside()
        self._keep_pulling(consumer)

    def hold(self, consumer: Consumer, entry: "Entry") -> None:
        """Let the consumer hold a ready entry, as if the entry were of no group."""
        self.leave(entry)
        entry.claim(consumer)
        consumer.unsettled[entry] = entry.claim_number

    def first_wanted(self, consumer: Consumer, now: float) -> "Entry | None":
        """The first entry that is for this consumer. What has expired on the way is taken out, or may be had."""
        entry = self._candidate(consumer)
        while entry is not None and not self._delivers_expired and is_expired(entry, now):
            self._expire(entry)
            entry = self._candidate(consumer)
        return entry

    def stop_pulling(self, consumer: Consumer) -> None:
        """Note that a consumer was given nothing, and let another be woken in its stead."""
        if consumer.interest is NOTIFIED:
            self.consumers.become_interested(consumer)
        self.hand_over()

    def _keep_pulling(self, consumer: Consumer) -> None:
        if not consumer.credit.is_open:
            self.consumers.rest(consumer)
            self.hand_over()
        elif consumer.interest is not NOTIFIED:
            self.consumers.become_notified(consumer)

    def _show_next(self, browser: Consumer, now: float) -> "Entry | None":
        entry = None if self.halted else self.first_wanted(browser, now)
        if entry is None:
            return None
        if not browser.credit.take(entry.message.size):
            self.consumers.block(browser, entry)
            return None
        if browser.interest is BLOCKED:
            self.consumers.become_interested(browser)
        if browser.view is not None:
            browser.view.saw(entry)
        browser.unsettled[entry] = entry.claim_number
        if not browser.credit.is_open:
            self.consumers.rest(browser)
        return entry

    def next_in_turn(self, now: float) -> Consumer | None:
        """The consumer that may have an entry now: highest priority, equals in turn."""
        if not self.halted:
            for consumer in list(self.consumers.in_turn()):
                entry = self.first_wanted(consumer, now)
                if entry is None:
                    continue
                if consumer.credit.allows(entry.message.size):
                    return consumer
                self.consumers.block(consumer, entry)  # or it would be in the way of the others
        self._send_to_sleep(now)
        return None

    def _send_to_sleep(self, now: float) -> None:
        # As if each had pulled in vain: what comes next must wake them.
        for consumer in list(self.consumers.in_turn()):
            self.claim_for(consumer, now)

    def is_bound(self, entry: "Entry") -> bool:
        """Whether an entry went to its consumer because of its group: then it used up no turn."""
        groups = self.consumers.groups
        return groups is not None and not entry.opens_group and groups.group_of(entry.message) is not None

    def wanted(self, most: int) -> int:
        """How many more entries these consumers could have, at most ``most``."""
        if self.halted:
            return 0
        waiting = len(self.ready)
        free = 0
        for consumer in self.consumers.in_turn():
            more = consumer.credit.free
            if more is None:
                return max(0, most - waiting)
            free += more
        return max(0, min(most, free - waiting))
