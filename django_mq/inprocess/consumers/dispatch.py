"""Which ready entry goes to which consumer, and which consumer is woken.

Nothing is pushed: a consumer is woken, and pulls. The rules follow Qpid's redesign of its
delivery:

- an arriving entry wakes at most one idle consumer that competes for entries;
- a consumer that was woken pulls until it gets None; if entries remain then, another consumer
  is woken ("the notified consumer did not do the work");
- when the credit or interest of a consumer ends, it is marked first, and the next one is woken after that.
  In the other order it would still count as a better consumer that will take the entry.

A consumer may take only the first entry that it wants. If a better consumer wants that entry, or the
credit does not suffice, it gets nothing, and does not look at later entries.
"""

from typing import TYPE_CHECKING

from django_mq.engine.decisions.expiry import is_expired
from django_mq.engine.states import CLAIMED
from django_mq.inprocess.consumers.consumer import (
    BLOCKED,
    NON_ACQUIRING,
    NOT_INTERESTED,
    NOTIFIED,
    REMOVED,
    Consumer,
    tell,
)
from django_mq.inprocess.consumers.subscriptions import Consumers
from django_mq.inprocess.entries.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.consumers.admission import LiveConsumers
    from django_mq.inprocess.consumers.groups import Groups
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.entries.lists import EntryList


class Dispatch:
    """The ready entries and the consumers of a queue; assigns the ones to the others.

    ``expire`` is called with an expired ready entry, and removes it. With
    ``delivers_expired`` it is not called.
    """

    def __init__(
        self, ready: "EntryList", expire: "Callable[[Entry], None]", *, delivers_expired: bool = False
    ) -> None:
        self.ready = ready
        self._expire = expire
        self._delivers_expired = delivers_expired
        self.consumers = Consumers()
        #: Nothing is delivered.
        self.halted = False
        #: The consumers that may receive; None: all of them.
        self.live: LiveConsumers | None = None

    @property
    def groups(self) -> "Groups | None":
        return self.consumers.groups

    # The line.

    def stand(self, entry: "Entry") -> "Entry | None":
        """Put a ready entry in its place and wake one consumer for it. Returns as ``EntryList.add``."""
        consumers = self.consumers
        replaced = self.ready.add(entry)
        if replaced is entry:
            return replaced
        if replaced is not None:
            self._after_leaving(replaced)
        if consumers.views:
            self._show_arrival(entry)
        if consumers.blocked:
            self._unblock_behind(entry)
        if consumers.idle and not self.halted:
            consumer = consumers.to_wake(entry)
            if consumer is not None and self._would_come_to(consumer, entry):
                self._wake(consumer)
            elif consumer is not None:
                self.hand_over()
        return replaced

    def _would_come_to(self, consumer: Consumer, entry: "Entry") -> bool:
        """Whether the consumer, if woken, may go on to this entry: no better one takes an earlier entry."""
        if consumer.priority >= self.consumers.top_priority:
            return True
        first = self._candidate(consumer)
        return first is None or first is entry or not self.consumers.above(consumer, first)

    def _show_arrival(self, entry: "Entry") -> None:
        consumers = self.consumers
        for consumer, view in consumers.views.items():
            unseen = view.arrived(entry)
            if view.looks_back:
                consumers.looking_back[consumer] = None
            if unseen and consumer.interest is NON_ACQUIRING and not self.halted and consumer.wants(entry):
                tell(consumer.wake, consumer)

    def _unblock_behind(self, entry: "Entry") -> None:
        # A consumer blocked by a large entry may have the credit for one that now stands before it.
        position = self.ready.position
        for consumer in list(self.consumers.blocked):
            is_before = consumer.waiting_for is not None and position(entry) < position(consumer.waiting_for)
            if is_before and self.consumers.could_take(consumer, entry):
                if consumer.browser:
                    self._wake(consumer)
                else:
                    self.consumers.become_interested(consumer)

    def _wake(self, consumer: Consumer) -> None:
        if consumer.browser:
            self.consumers.become_interested(consumer)
        else:
            self.consumers.become_notified(consumer)
        tell(consumer.wake, consumer)

    def leave(self, entry: "Entry") -> bool:
        """Take an entry out of the line; False if it was not there."""
        if not self.ready.remove(entry):
            return False
        self._after_leaving(entry)
        return True

    def _after_leaving(self, entry: "Entry") -> None:
        consumers = self.consumers
        if consumers.looking_back:
            for consumer in list(consumers.looking_back):
                consumers.views[consumer].left(entry)
                if not consumers.views[consumer].looks_back:
                    del consumers.looking_back[consumer]
        if consumers.blocked:
            for consumer in list(consumers.blocked):
                if consumer.waiting_for is entry:
                    self._wake(consumer)

    def _candidate(self, consumer: Consumer) -> "Entry | None":
        view = consumer.view
        if view is None:
            return self.ready.head()
        groups = self.consumers.groups
        while (entry := view.next_in(self.ready)) is not None:
            if consumer.wants(entry):
                if groups is None or consumer.browser or groups.may_take(consumer, entry):
                    return entry
                groups.skipped(entry)
            view.saw(entry)
        return None

    # Interest.

    def refresh(self, consumer: Consumer) -> None:
        """Set the interest of a consumer after a change of credit or ``paused``, and wake the next ones."""
        if consumer.interest is REMOVED:
            return
        consumers = self.consumers
        if not consumer.desires_work or not (self.live is None or self.live.is_live(consumer)):
            if consumer.interest is not NOT_INTERESTED:
                consumers.rest(consumer)
                self.hand_over()
        elif consumer.interest is NOT_INTERESTED or consumer.interest is BLOCKED:
            is_next = consumer.plain and not consumers.idle and consumer.priority >= consumers.top_priority
            if is_next and not self.halted and consumers.awake < len(self.ready):
                self._wake(consumer)  # the same result as below, without the calls
                return
            consumers.become_interested(consumer)
            self._tell(consumer)

    def _tell(self, consumer: Consumer) -> None:
        entry = None if self.halted else self._candidate(consumer)
        if consumer.browser:
            if entry is not None:
                tell(consumer.wake, consumer)
        elif entry is None or self.consumers.above(consumer, entry):
            self.hand_over()
        else:
            self._wake(consumer)

    def look_again(self, entry: "Entry | None") -> None:
        """Let all consumers look again from this entry of a freed group on; None does nothing."""
        if entry is not None:
            for consumer, view in self.consumers.views.items():
                if not consumer.browser:
                    view.move_back(entry)
            self.wake_all()

    def resume(self) -> None:
        """Deliver again: wake as many consumers as there are entries for."""
        self.halted = False
        for browser in list(self.consumers.browsers):
            self._tell(browser)
        self.wake_all()

    def wake_all(self) -> None:
        while self.hand_over():
            pass

    def hand_over(self) -> bool:
        """Wake one more consumer if there are entries that the busy ones will not take; False if not."""
        consumers = self.consumers
        if not consumers.idle or self.halted:
            return False
        enough = consumers.awake >= len(self.ready)
        if enough and not consumers.views:  # all take the head
            return False
        for consumer in consumers.sleepers():
            entry = self._candidate(consumer)
            if entry is None or consumers.above(consumer, entry) or (enough and consumers.expects(entry)):
                continue
            self._wake(consumer)
            return True
        return False

    # Deliveries.

    def give_position(self, consumer: Consumer, *, always: bool = False) -> None:
        """Give a position to a consumer that may skip entries, or ``always``."""
        needed = always or consumer.browser or consumer.picky or consumer.from_tail or self.groups is not None
        if needed and consumer.view is None and consumer.interest is not REMOVED:
            consumer.plain = False
            view = View(self.ready, again=not consumer.browser, from_tail=consumer.from_tail)
            consumer.view = self.consumers.views[consumer] = view

    def claim_head(self, consumer: Consumer, now: float) -> "Entry | None":
        """As ``claim_for``, for a plain consumer: the path of nearly every message, without the calls."""
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
        """Give the consumer the first entry that it wants; None if it may not have that one, or wants none."""
        if consumer.interest is NOT_INTERESTED or consumer.interest is REMOVED:
            return None
        entry = None if self.halted else self.first_wanted(consumer, now)
        is_low = consumer.priority < self.consumers.top_priority and not consumer.browser
        if entry is None or (is_low and self.consumers.above(consumer, entry)):
            if not consumer.browser:
                self.stop_pulling(consumer)
            return None
        if not consumer.credit.take(entry.message.size):
            self.consumers.block(consumer, entry)
            if not consumer.browser:
                self.hand_over()
            return None
        if consumer.browser:
            self._show(consumer, entry)
        else:
            self.take(consumer, entry)
        return entry

    def _show(self, browser: Consumer, entry: "Entry") -> None:
        if browser.interest is BLOCKED:
            self.consumers.become_interested(browser)
        if browser.view is not None:
            browser.view.saw(entry)
        browser.unsettled[entry] = entry.claim_number
        if not browser.credit.is_open:
            self.consumers.rest(browser)

    def take(self, consumer: Consumer, entry: "Entry") -> None:
        """Claim a ready entry for a consumer after taking its credit."""
        self.hold(consumer, entry)
        groups = self.groups
        if groups is not None:
            entry.opens_group = groups.taken(consumer, entry)
            # An entry that blocks a consumer may be of a group that has just found another owner.
            for other in list(self.consumers.blocked) if entry.opens_group else ():
                blocking = None if other.browser else other.waiting_for
                if blocking is not None and not groups.may_take(other, blocking):
                    self.consumers.become_interested(other)
        self._keep_pulling(consumer)

    def hold(self, consumer: Consumer, entry: "Entry") -> None:
        """Let the consumer hold a ready entry; does not change the owner of a group."""
        self.leave(entry)
        entry.claim(consumer)
        consumer.unsettled[entry] = entry.claim_number

    def first_wanted(self, consumer: Consumer, now: float) -> "Entry | None":
        """Return the first entry for this consumer; expired ones before it are removed or delivered."""
        entry = self._candidate(consumer)
        while entry is not None and not self._delivers_expired and is_expired(entry, now):
            self._expire(entry)
            entry = self._candidate(consumer)
        return entry

    def stop_pulling(self, consumer: Consumer) -> None:
        """Note that a consumer got nothing, and let another one be woken."""
        if consumer.interest is NOTIFIED:
            self.consumers.become_interested(consumer)
        self.hand_over()

    def _keep_pulling(self, consumer: Consumer) -> None:
        if not consumer.credit.is_open:
            self.consumers.rest(consumer)
            self.hand_over()
        elif consumer.interest is not NOTIFIED:
            self.consumers.become_notified(consumer)

    def next_in_turn(self, now: float) -> Consumer | None:
        """Return the consumer that may have an entry now: the highest priority, equals in turn."""
        for consumer in [] if self.halted else list(self.consumers.in_turn()):
            entry = self.first_wanted(consumer, now)
            if entry is None:
                continue
            if consumer.credit.allows(entry.message.size):
                return consumer
            self.consumers.block(consumer, entry)  # or it would keep the others from the entry
        # As if each had pulled and got nothing: the next arrival must wake them.
        for consumer in list(self.consumers.in_turn()):
            self.claim_for(consumer, now)
        return None
