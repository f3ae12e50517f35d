"""What consumers are given."""

from django_mq.engine.consumer import NON_ACQUIRING, REMOVED, Consumer
from django_mq.engine.doors.subscribing import Subscribing
from django_mq.engine.entry import Entry
from django_mq.engine.telling import tell
from django_mq.errors import UnknownConsumer


class Serving(Subscribing):
    """Gives consumers what they may have."""

    def refresh(self, consumer: Consumer) -> None:
        """To be called after its credit was resized or stopped, or its ``paused`` was changed."""
        with self.lock:
            self._dispatch.refresh(consumer)

    def wanted(self, most: int) -> int:
        """How many more entries a store should claim for these consumers, at most ``most``.

        It is their free credit less what is ready here already. Unlimited credit wants
        ``most`` entries to be ready.
        """
        with self.lock:
            return self._dispatch.wanted(most)

    def deliver(self, consumer: Consumer, now: float) -> Entry | None:
        """Claim the first entry for a consumer; None if there is none that it may have now.

        To a browser the entry is only shown. Raises UnknownConsumer for another queue's.
        """
        self._acquire()
        try:
            if self._short and consumer.plain and consumer.queue is self:
                self._now = now
                if now >= self._calendar.quiet_until:
                    self._promote(now)
                entry = self._dispatch.claim_head(consumer, now)
                if entry is not None:
                    self._contents.claimed += 1
                    if entry.expires_at is not None:
                        self._calendar.expiring.remove(entry)
                return entry
            if consumer.queue is not self:
                self._refuse_stranger(consumer)
                return None
            if consumer.reserved:
                return self._handed(consumer, consumer.reserved.pop(0))
            self._tell_time(now)
            if self._contents.holding:
                self._contents.unhold(self._contents.holding.seen_by(consumer, now))
            entry = self._claim_for(consumer, now)
            if self.rules.hold and consumer.interest is not REMOVED:
                self._contents.holding.looked(consumer, entry)
            if entry is None and consumer.auto_close:
                self._close_at_end(consumer, now)
            return self._handed(consumer, entry)
        finally:
            self._release()

    def first_for(self, consumer: Consumer, now: float) -> Entry | None:
        """The first entry that is for this consumer, be its credit for it or not; nothing is claimed."""
        with self.lock:
            self._tell_time(now)
            return self._dispatch.first_wanted(consumer, now)

    def found_nothing(self, consumer: Consumer) -> None:
        """Note that a store has found nothing for the consumer: what comes next may wake the consumer again."""
        with self.lock:
            self._dispatch.stop_pulling(consumer)

    def take(self, entry: Entry, consumer: Consumer) -> None:
        """Claim this very entry, which is ready, for a consumer: the caller has chosen. Credit is not asked.

        For stores whose rules reach further than one queue's consumers. Raises IllegalMove.
        """
        with self.lock:
            self._dispatch.take(consumer, entry)
            self.take_slot(consumer)
            self._claimed(consumer, entry)
            self._spent(consumer)
            self._handed(consumer, entry)

    def take_again(self, entry: Entry, consumer: Consumer, claim_number: int, *, attempts: int) -> None:
        """Let a consumer hold an entry again that was taken from it, under the claim that it had.

        The caller knows that nothing has become of the entry since; ``attempts`` are those before this delivery.
        The consumer gets neither a slot nor the entry's group by that.
        """
        with self.lock:
            self._contents.lift(entry)
            entry.attempts, entry.claim_number = attempts, claim_number - 1
            self._dispatch.hold(consumer, entry)
            self._claimed(consumer, entry)

    def _refuse_stranger(self, consumer: Consumer) -> None:
        if consumer.interest is not REMOVED:
            raise UnknownConsumer

    def _tell_time(self, now: float) -> None:
        self._now = now
        if now >= self._calendar.quiet_until:
            self._promote(now)
        if not self._gate.is_open:
            self._look_at_gate()

    def _claim_for(self, consumer: Consumer, now: float) -> Entry | None:
        entry = self._dispatch.claim_for(consumer, now)
        if consumer.browser:
            self._note_look(consumer, entry, now)
        elif entry is not None:
            self._claimed(consumer, entry)
        if entry is not None:
            self._spent(consumer)
        return entry

    def _spent(self, consumer: Consumer) -> None:
        """The consumer has less credit, which it may share with consumers of other queues."""
        if consumer.target is not None:
            consumer.target.credit_changed(consumer)

    def _note_look(self, browser: Consumer, entry: Entry | None, now: float) -> None:
        if browser.view is None or self._dispatch.halted:
            return
        at_the_end = entry is None and self._dispatch.first_wanted(browser, now) is None
        browser.view.looked(self._arrivals.last, to_the_end=at_the_end)

    def _claimed(self, consumer: Consumer, entry: Entry) -> None:
        self._contents.claimed_by(consumer, entry)
        if self._dispatch.groups is not None:
            self._dispatch.look_again(self._dispatch.groups.delivered(consumer, entry))

    def _handed(self, consumer: Consumer, entry: Entry | None) -> Entry | None:
        if entry is not None and consumer.auto_accept and not consumer.browser:
            self._settle(entry, consumer, None, Entry.accept)
        return entry

    def _close_at_end(self, consumer: Consumer, now: float) -> None:
        """Close a consumer that has seen everything; one that is only short of credit stays."""
        if consumer.interest is REMOVED or self._dispatch.halted or not consumer.desires_work:
            return
        if self._dispatch.first_wanted(consumer, now) is None:
            self.remove_consumer(consumer, give_back=False)
            tell(consumer.closed, consumer)

    def deliver_next(self, now: float) -> tuple[Consumer, Entry] | None:
        """Claim the first entry for the consumer whose turn it is; None if none may have one."""
        with self.lock:
            self._tell_time(now)
            for consumer in list(self._dispatch.consumers.all):
                if consumer.reserved or consumer.interest is NON_ACQUIRING:
                    entry = self.deliver(consumer, now)
                    if entry is not None:
                        return consumer, entry
            return self._deliver_in_turn(now)

    def _deliver_in_turn(self, now: float) -> tuple[Consumer, Entry] | None:
        consumer = self._dispatch.next_in_turn(now)
        entry = None if consumer is None else self._claim_for(consumer, now)
        if consumer is None or entry is None:
            return None
        if not self._dispatch.is_bound(entry):
            self._dispatch.consumers.served(consumer)
        self._handed(consumer, entry)
        return consumer, entry
