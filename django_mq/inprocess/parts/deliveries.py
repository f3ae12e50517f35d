"""Claims for consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.errors import UnknownConsumer
from django_mq.inprocess.consumers.consumer import NON_ACQUIRING, REMOVED, tell
from django_mq.inprocess.entries.entry import Entry

if TYPE_CHECKING:
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.parts.due import DueEntries
    from django_mq.inprocess.parts.outcomes import Outcomes
    from django_mq.inprocess.parts.state import CommonState
    from django_mq.inprocess.parts.subscribers import Subscribers


class QueueDeliveries:
    """Claims entries of one queue for its consumers."""

    def __init__(self, state: CommonState, due: DueEntries, outcomes: Outcomes, subscribers: Subscribers) -> None:
        self._state = state
        self._contents, self._dispatch = state.contents, state.dispatch
        self._due, self._outcomes, self._subscribers = due, outcomes, subscribers

    def deliver(self, consumer: Consumer, now: float) -> Entry | None:
        """Claim the first entry for a consumer; None if there is none that it may have now."""
        if consumer.queue is not self._state.queue:
            if consumer.interest is not REMOVED:
                raise UnknownConsumer
            return None
        if consumer.reserved:
            return self._handed(consumer, consumer.reserved.pop(0))
        self._due.tell(now)
        holding = self._contents.holding
        if holding:
            self._contents.stand_again(holding.seen_by(consumer, now))
        entry = self._claim_for(consumer, now)
        if self._state.rules.hold and consumer.interest is not REMOVED:
            holding.looked(consumer, entry)
        if entry is None and consumer.auto_close:
            self._close_at_end(consumer, now)
        return self._handed(consumer, entry)

    def next(self, now: float) -> tuple[Consumer, Entry] | None:
        """Claim the first entry for the next consumer in turn; None if no consumer may have one."""
        self._due.tell(now)
        dispatch = self._dispatch
        for consumer in list(dispatch.consumers.all):
            if consumer.reserved or consumer.interest is NON_ACQUIRING:
                entry = self.deliver(consumer, now)
                if entry is not None:
                    return consumer, entry
        next_one = dispatch.next_in_turn(now)
        entry = None if next_one is None else self._claim_for(next_one, now)
        if next_one is None or entry is None:
            return None
        # An entry that went to its consumer because of its group uses up no turn.
        groups = dispatch.groups
        if groups is None or entry.opens_group or groups.group_of(entry.message) is None:
            dispatch.consumers.served(next_one)
        self._handed(next_one, entry)
        return next_one, entry

    def reserve(self, entry: Entry, now: float) -> bool:
        """Claim the entry for a consumer that would get it if it pulled now; False if there is none."""
        for consumer in list(self._dispatch.consumers.in_turn()):
            if self._dispatch.first_wanted(consumer, now) is not entry:
                continue
            if self._claim_for(consumer, now) is entry:
                consumer.reserved.append(entry)
                consumer.plain = False
                tell(consumer.wake, consumer)
                return True
        return False

    def _claim_for(self, consumer: Consumer, now: float) -> Entry | None:
        entry = self._dispatch.claim_for(consumer, now)
        if not consumer.browser:
            if entry is not None:
                self._claimed(consumer, entry)
        elif consumer.view is not None and not self._dispatch.halted:
            at_the_end = entry is None and self._dispatch.first_wanted(consumer, now) is None
            consumer.view.looked(self._state.numbers.last, to_the_end=at_the_end)
        if entry is not None:
            _spent(consumer)
        return entry

    def _claimed(self, consumer: Consumer, entry: Entry) -> None:
        self._contents.claimed_by(consumer, entry)
        if self._dispatch.groups is not None:
            self._dispatch.look_again(self._dispatch.groups.delivered(consumer, entry))

    def _handed(self, consumer: Consumer, entry: Entry | None) -> Entry | None:
        if entry is not None and consumer.auto_accept and not consumer.browser:
            self._outcomes.settle(entry, consumer, None, Entry.accept)
        return entry

    def _close_at_end(self, consumer: Consumer, now: float) -> None:
        """Close a consumer that has seen everything, but not one that is only out of credit."""
        if consumer.interest is REMOVED or self._dispatch.halted or not consumer.desires_work:
            return
        if self._dispatch.first_wanted(consumer, now) is None:
            self._subscribers.close(consumer)

    # For stores, which have rules beyond the consumers of one queue.

    def first_for(self, consumer: Consumer, now: float) -> Entry | None:
        """Return the first entry for this consumer, even without the credit for it; nothing is claimed."""
        self._due.tell(now)
        return self._dispatch.first_wanted(consumer, now)

    def found_nothing(self, consumer: Consumer) -> None:
        """Note that a store has found nothing for the consumer: the next arrival may wake it again."""
        self._dispatch.stop_pulling(consumer)

    def take(self, entry: Entry, consumer: Consumer) -> None:
        """Claim this ready entry for a consumer, even without the credit for it. Raises IllegalMove."""
        self._dispatch.take(consumer, entry)
        self._subscribers.take_slot(consumer)
        self._claimed(consumer, entry)
        _spent(consumer)
        self._handed(consumer, entry)

    def take_again(self, entry: Entry, consumer: Consumer, claim_number: int, *, attempts: int) -> None:
        """Let a consumer hold an entry again that was taken from it, under its former claim number.

        The caller knows that the entry has not changed since. ``attempts`` are those before this delivery.
        The consumer gets neither a slot nor the entry's group.
        """
        self._contents.lift(entry)
        entry.attempts, entry.claim_number = attempts, claim_number - 1
        self._dispatch.hold(consumer, entry)
        self._claimed(consumer, entry)


def _spent(consumer: Consumer) -> None:
    """Update the target of a consumer that has used credit."""
    if consumer.target is not None:
        consumer.target.credit_changed(consumer)
