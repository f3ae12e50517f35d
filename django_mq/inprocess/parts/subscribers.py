"""Consumers that come and go, and the end of the queue."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from django_mq.engine.states import Cause
from django_mq.errors import IllegalMove
from django_mq.inprocess.consumers.consumer import REMOVED, tell
from django_mq.inprocess.entries.entry import Entry

if TYPE_CHECKING:
    from django_mq.engine.states import Fate
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.parts.outcomes import Outcomes
    from django_mq.inprocess.parts.state import CommonState


class Subscribers:
    """The consumers of one queue: which may subscribe, which may receive, and what they leave behind."""

    def __init__(self, state: CommonState, outcomes: Outcomes) -> None:
        self._state = state
        self._dispatch = state.dispatch
        self._outcomes = outcomes

    def add(self, consumer: Consumer) -> bool:
        """Subscribe a consumer; False if it is subscribed already.

        Raises ExclusiveConsumerExists, ConsumersExist, AccessRefused or TooManyConsumers if the
        queue does not admit it, QueueDeleted, and IllegalMove if it still holds entries.
        """
        state, dispatch = self._state, self._dispatch
        state.refuse_if_deleted()
        if consumer.interest is not REMOVED:
            return False
        if consumer.unsettled:
            raise IllegalMove("The consumer still holds entries of the queue it has left; settle them first.")
        state.admission.admit(consumer, dispatch.consumers.all)
        consumer.queue = state.queue
        consumer.browser = consumer.browser or state.rules.nondestructive
        dispatch.consumers.add(consumer)
        dispatch.give_position(consumer)
        if not state.policy.owns_until_it_leaves:
            self.take_slot(consumer)
        if dispatch.groups is not None:
            dispatch.look_again(dispatch.groups.joined(consumer))
        state.look_at_gate()
        dispatch.refresh(consumer)
        return True

    def take_slot(self, consumer: Consumer) -> bool:
        """Give the consumer a slot, or let it stand by for one; return whether it may receive.

        Without ``max_live`` every consumer may.
        """
        live = self._dispatch.live
        return live is None or self._state.rules.max_live is None or live.add(consumer)

    def remove(self, consumer: Consumer, *, give_back: bool = True, failed: bool = False) -> list[Entry]:
        """Unsubscribe a consumer; release its entries, and return them in order of delivery.

        If it has ``failed``, every attempt counts: the last one allowed makes a dead letter, and
        no other is followed by a delay. Without ``give_back`` it keeps its entries, and may still
        settle them; it always keeps those of open units of work.
        """
        state = self._state
        if consumer.queue is not state.queue:
            return []
        # First, so that its returned entries are not for itself again.
        was_here = self._forget(consumer)
        # Without ``give_back``, release the entries that ``deliver`` has not returned yet.
        leaving = [entry for entry in consumer.unsettled if entry not in consumer.settling]
        leaving = leaving if give_back else list(consumer.reserved)
        consumer.reserved.clear()
        fails = failed and give_back
        released = [entry for entry in leaving if self._end(entry, consumer, fails=fails)]
        if consumer.unsettled and not consumer.browser:
            state.contents.departed[consumer] = None
        self._dispatch.hand_over()
        if was_here and not consumer.transient and not self._dispatch.consumers.all:
            for entry in list(state.contents.waiting()) if state.rules.purge_on_no_consumers else ():
                state.contents.take_out(entry, Cause.KILLED)
            if state.rules.auto_delete:
                self.close_for_ever()
        return released

    def _end(self, entry: Entry, consumer: Consumer, *, fails: bool) -> Fate:
        if fails:
            return self._outcomes.fail(entry, consumer)
        return self._outcomes.settle(entry, consumer, None, Entry.release)

    def _forget(self, consumer: Consumer) -> bool:
        state, dispatch = self._state, self._dispatch
        if not dispatch.consumers.remove(consumer):
            return False
        consumer.view, consumer.plain = None, False
        state.contents.holding.gone(consumer)
        state.admission.left(consumer, dispatch.consumers.all)
        if dispatch.live is not None:
            promoted = dispatch.live.remove(consumer)
            if promoted is not None:
                dispatch.refresh(promoted)
        if state.groups is not None:
            dispatch.look_again(state.groups.left(consumer))
        state.look_at_gate()
        return True

    def lose(self, consumer: Consumer, now: float) -> list[tuple[Entry, Fate]]:
        """Unsubscribe the consumer of a dead session; return each entry that it held, with its fate.

        Each entry returns to its place, uncounted, as a suspect: it may be the cause of the death. A suspect
        has failed, because it was delivered alone: after the last attempt allowed it is a dead letter,
        which stays here: a store sends it on.
        """
        self._state.now = now
        own = [entry for entry in consumer.unsettled if entry.owner is consumer]
        held = [(entry, self._outcomes.lose(entry, consumer)) for entry in own]
        self.remove(consumer)
        return held

    def close(self, consumer: Consumer) -> None:
        """Unsubscribe a consumer, which keeps its entries, and tell it so."""
        self.remove(consumer, give_back=False)
        tell(consumer.closed, consumer)

    def close_for_ever(self) -> None:
        """Close the queue: close its consumers, and make dead letters of entries that no consumer holds."""
        state = self._state
        if state.deleted:
            return
        state.deleted, state.plain = True, False
        for consumer in list(self._dispatch.consumers.all):
            self.close(consumer)
        leaving = [*state.contents.stealable(), *state.contents.waiting()]
        for entry in sorted(leaving, key=attrgetter("arrival")):
            self._outcomes.expel(entry)
        state.capacity.resume()
        if state.listener is not None:
            state.listener.deleted(state.name)

    # Reading.

    def all(self) -> list[Consumer]:
        """Return the subscribed consumers, the oldest first."""
        return list(self._dispatch.consumers.all)

    def live(self) -> frozenset[Consumer]:
        """Return the consumers with a slot, if the queue has slots."""
        return frozenset() if self._dispatch.live is None else self._dispatch.live.live()

    @property
    def priorities_differ(self) -> bool:
        """Whether the consumers have different priorities."""
        return self._dispatch.consumers.priorities_differ

    def group_owners(self) -> dict[str, Consumer]:
        """Return the owned message groups, each with its owner."""
        return {} if self._dispatch.groups is None else self._dispatch.groups.owners()

    def group_owner(self, group: str) -> Consumer | None:
        """Return the owner of one message group; None if there is none."""
        return None if self._dispatch.groups is None else self._dispatch.groups.owner_of(group)
