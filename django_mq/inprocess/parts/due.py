"""What time changes: scheduled entries become ready, and others expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.last_value import is_in_advance
from django_mq.engine.states import READY, Cause
from django_mq.inprocess.entries.timeline import NEVER

if TYPE_CHECKING:
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.parts.state import CommonState


class DueEntries:
    """Makes due entries ready, and removes expired ones. ``deliver`` delivers due entries without these calls."""

    def __init__(self, state: CommonState) -> None:
        self._state = state
        self._contents = state.contents

    def tell(self, now: float) -> None:
        """Set the time of the queue, and do what it makes necessary before a delivery."""
        state = self._state
        state.now = now
        if now >= self._contents.schedule.next_time:
            self.promote(now)
        if not state.gate.is_open:
            state.look_at_gate()

    def promote(self, now: float, most: int | None = None) -> list[Entry]:
        """Make the due entries ready, the earliest ``most`` at most; return them in the order they became due."""
        self._state.now = now
        due = self.arrived(self._contents.schedule.until(now, most))
        for _ in () if self._state.plain else due:  # only the latest may not be evicted
            self._state.capacity.look_again(due[-1])
        return due

    def let_values_arrive(self, now: float) -> None:
        """Let the values that were scheduled and are due arrive: they are older than what arrives now."""
        if now >= self._contents.schedule.next_time and self.takes_values_in_advance:
            self.arrived([entry for entry in self._contents.schedule.until(now) if self.arrives_anew(entry)])

    @property
    def takes_values_in_advance(self) -> bool:
        """Whether a scheduled value arrives when it is due."""
        return self._state.policy.values_arrive_when_due and self._state.rules.kind == "last_value"

    def arrives_anew(self, entry: Entry) -> bool:
        """Whether this scheduled value arrives when it is due."""
        if not self.takes_values_in_advance or self._state.dispatch.ready.value_of(entry.message) is None:
            return False
        return is_in_advance(entry.state, redelivered=entry.redelivered)

    def arrived(self, due: list[Entry]) -> list[Entry]:
        """Make due entries ready, and return them; values that were scheduled in advance arrive anew."""
        if self._contents.fair.fairness is not None:
            with self._contents.placing_together():
                return self._contents.stand_again(due)
        if not self.takes_values_in_advance:
            return self._contents.stand_again(due)
        return [ready for entry in due for ready in self._arrived_by_value(entry)]

    def _arrived_by_value(self, entry: Entry) -> list[Entry]:
        if not self.arrives_anew(entry):
            return self._contents.stand_again([entry])
        again = self._state.placement.entry_again(entry, entry.message)
        again.stand_at(entry.place, again.arrival)
        again.state, again.due_at = READY, None
        if not self._contents.take_out(entry, Cause.COPIED):
            return []
        self._state.arrive_again(again)
        return [again]

    def expire(self, now: float, most: int | None = None) -> list[Entry]:
        """Remove the expired ready entries, ``most`` at most; return all that were removed since the last call.

        This includes those that ``deliver`` has removed, but not those that went to an expiry queue. An entry
        that a consumer holds, and that is not stealable, is removed when it is returned.
        """
        self._state.now = self._contents.expired_until = now
        for entry in self._contents.expiring.pop_until(now, most):
            self._contents.expire_entry(entry)
        expired, self._state.expired = self._state.expired, []
        return expired

    def overdue(self, now: float, most: int) -> list[Entry]:
        """Return the expired entries in line, ``most`` at most; they stay until they are sent on or removed."""
        self._state.now = now
        return self._contents.expiring.until(now, most)

    def unhold(self, now: float) -> list[Entry]:
        """Make every overdue held entry ready; return these."""
        return self._contents.stand_again(self._contents.holding.overdue(now))

    def keep_house(self, now: float) -> None:
        """Promote, unhold and expire."""
        self.tell(now)
        self.promote(now)
        self.unhold(now)
        self.expire(now)  # discards the result, which would otherwise grow for ever

    def next_due(self) -> float | None:
        """Return when the next scheduled entry becomes due; None if none is scheduled."""
        due_at = self._contents.schedule.next_time
        return None if due_at == NEVER else due_at

    def next_time(self) -> float | None:
        """Return when to call ``keep_house`` next; None if nothing will become due or expire."""
        contents, opens_at = self._contents, self._state.gate.opens_at
        waits = NEVER if opens_at is None else opens_at
        times = (contents.schedule.next_time, contents.expiring.next_time, contents.holding.next_time(), waits)
        return None if min(times) == NEVER else min(times)
