"""How consumers come and go, and how the queue ends."""

from operator import attrgetter
from typing import TYPE_CHECKING, cast

from django_mq.engine.consumer import REMOVED, Consumer
from django_mq.engine.departing import Cause
from django_mq.engine.doors.settling import Settling
from django_mq.engine.entry import Entry
from django_mq.engine.fate import Fate
from django_mq.engine.telling import tell
from django_mq.engine.verdict import Ending, Verdict, verdict
from django_mq.errors import IllegalMove

if TYPE_CHECKING:
    from django_mq.engine.exclusivity import Admission
    from django_mq.engine.queue import Queue


class Subscribing(Settling):
    """Lets consumers in and out."""

    @property
    def admission(self) -> "Admission":
        """Who may subscribe, and to whom the queue belongs."""
        return self._admission

    def add_consumer(self, consumer: Consumer) -> bool:
        """Subscribe a consumer; False if it is subscribed already.

        Raises ExclusiveConsumerExists, ConsumersExist, AccessRefused or TooManyConsumers if the
        queue may not be shared so, QueueDeleted, and IllegalMove if it still holds entries.
        """
        with self.lock:
            self._refuse_if_deleted()
            if consumer.interest is not REMOVED:
                return False
            if consumer.unsettled:
                raise IllegalMove("The consumer still holds entries of the queue it has left; settle them first.")
            self._admission.admit(consumer, self._dispatch.consumers.all)
            consumer.queue = cast("Queue", self)
            consumer.browser = consumer.browser or self.rules.nondestructive
            self._dispatch.subscribe(consumer)
            if not self.policy.owns_until_it_leaves:
                self.take_slot(consumer)
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.joined(consumer))
            self._look_at_gate()
            self._dispatch.refresh(consumer)
            return True

    def take_slot(self, consumer: Consumer) -> bool:
        """Give the consumer a slot where they are few, or let it stand by for one; whether it may receive."""
        with self.lock:
            live = self._dispatch.live
            return live is None or self.rules.max_live is None or live.add(consumer)

    def remove_consumer(
        self, consumer: Consumer, *, give_back: bool = True, failed: bool = False, now: float | None = None
    ) -> list[Entry]:
        """Unsubscribe a consumer; release what it holds, and answer that in order of delivery.

        If it has ``failed``, every attempt counts: the last one allowed makes a dead letter, and
        no other is followed by a delay. Without ``give_back`` it keeps what it holds, and may still
        settle it, as always what belongs to open units of work.
        """
        with self.lock:
            self._now = self._now if now is None else now
            if consumer.queue is not self:
                return []
            # Out of every set first, so that nothing it gives back is meant for it again.
            was_here = self._forget(consumer)
            released = self._take_back(consumer, failed=failed) if give_back else self._take_reserved(consumer)
            if consumer.unsettled and not consumer.browser:
                self._contents.departed[consumer] = None
            self._dispatch.hand_over()
            if was_here:
                self._left_alone(consumer)
            return released

    def lose_consumer(self, consumer: Consumer, now: float) -> list[tuple[Entry, Fate]]:
        """Unsubscribe the consumer of a session that has died; answer what it held, and what became of that.

        Each entry goes back to its place, uncounted, as a suspect: it may be what the worker died of. A suspect
        that was held has failed, for a suspect is delivered alone: the last attempt allowed makes a dead letter,
        which stays here until it is sent on.
        """
        with self.lock:
            self._now = now
            own = [entry for entry in consumer.unsettled if entry.owner is consumer]
            held = [(entry, self._lose(entry, consumer)) for entry in own]
            self.remove_consumer(consumer, now=now)
            return held

    def _lose(self, entry: Entry, consumer: Consumer) -> Fate:
        entry.redelivered = True
        move = Entry.fail if entry.suspect else Entry.release
        decision = verdict(Ending.FAILED, entry.attempts, self.rules, 0.0)
        if entry.suspect and not entry.replaced and decision.verdict is Verdict.DEAD:
            return self._bury(entry, consumer, None, "worker lost", stays=True)
        entry.suspect = True
        return self._settle(entry, consumer, None, move)

    def _take_reserved(self, consumer: Consumer) -> list[Entry]:
        """Release what was never handed over: nobody else could settle it."""
        reserved = list(consumer.reserved)
        consumer.reserved.clear()
        return [entry for entry in reserved if self._settle(entry, consumer, None, Entry.release)]

    def _forget(self, consumer: Consumer) -> bool:
        dispatch = self._dispatch
        if not dispatch.consumers.remove(consumer):
            return False
        consumer.view, consumer.plain = None, False
        self._contents.holding.gone(consumer)
        self._admission.left(consumer, dispatch.consumers.all)
        if dispatch.live is not None:
            promoted = dispatch.live.remove(consumer)
            if promoted is not None:
                dispatch.refresh(promoted)
        if self._groups is not None:
            self._dispatch.look_again(self._groups.left(consumer))
        self._look_at_gate()
        return True

    def _take_back(self, consumer: Consumer, *, failed: bool) -> list[Entry]:
        consumer.reserved.clear()
        settle = self._fail if failed else self.release
        unsettled = [entry for entry in consumer.unsettled if entry not in consumer.settling]
        return [entry for entry in unsettled if settle(entry, consumer)]

    def _left_alone(self, consumer: Consumer) -> None:
        """Do what the queue does when its last consumer has gone."""
        if consumer.transient or self._dispatch.consumers.all:
            return
        if self.rules.purge_on_no_consumers:
            for entry in list(self._contents.waiting()):
                self._contents.take_out(entry, Cause.KILLED)
        if self.rules.auto_delete:
            self.delete(self._now)

    def delete(self, now: float) -> None:
        """Close the queue for ever: its consumers are closed, and what nobody holds becomes dead letters.

        What a consumer still holds follows when it is given back.
        """
        with self.lock:
            if self.deleted:
                return
            self.deleted, self._plain, self._now = True, False, now
            for consumer in list(self._dispatch.consumers.all):
                self.remove_consumer(consumer, give_back=False)
                tell(consumer.closed, consumer)
            leaving = [*self._contents.stealable(), *self._contents.waiting()]
            for entry in sorted(leaving, key=attrgetter("arrival")):
                self._expel(entry)
            self._room.flow.resume()
            if self._listener is not None:
                self._listener.deleted(self.name)
