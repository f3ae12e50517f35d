"""Claims of a simulated queue that has limits by key: the engine says what may begin, as in every store."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.arbiter import Situation, award
from django_mq.engine.decisions.claim_limits import MOST_REFUSED, OpenLimits
from django_mq.engine.decisions.keyed_limits import KEPT_SECONDS, OpenKeyedLimits
from django_mq.engine.states import Cause
from django_mq.inprocess.entries.limited import LimitsOfQueue
from django_mq.inprocess.entries.timeline import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import Allowed, KeyedLimit, LimitedKey, Slot
    from django_mq.engine.message import Message
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue

#: How many messages a claim reads that may only bring what waits in the memory of a worker.
MOST_AHEAD: Final = 100
#: The least time between two looks: a clock of seconds since 1970 counts no less.
LEAST_SECONDS: Final = 1e-6


class SimulatedRow(NamedTuple):
    """A ready message, as the arbiter asks for it."""

    entry: Entry
    suspect: bool
    group: str | None = None
    owner: int | None = None


class LimitedQueue:
    """A queue with limits by key. ``messages`` and ``entries`` have what was published, by number."""

    def __init__(
        self,
        queue: Queue,
        limits: Sequence[KeyedLimit],
        allowed: Mapping[LimitedKey, Allowed],
        messages: Mapping[int, Message],
        entries: Mapping[int, Entry],
    ) -> None:
        self._queue, self._limits = queue, limits
        self._known = LimitsOfQueue(allowed=dict(allowed))
        self._messages, self._entries = messages, entries
        self._pruned_at = 0.0
        #: When a claim may bring something that the last claim has left; None if that is not known.
        self.next_time: float | None = None

    def claim(self, consumer: Consumer, now: float, *, ahead: bool) -> Entry | None:
        """Claim the first message that may begin; None if there is none. ``ahead``: it waits for its consumer."""
        self._queue.promote(now)
        if now - self._pruned_at >= KEPT_SECONDS:
            self._known.prune(now, lambda slot: not self._runs(slot))
            self._pruned_at = now
        while True:
            entry, limits = self._claimed(consumer, now, ahead=ahead)
            if entry is not None or ahead or not limits.is_full:
                break
        self.next_time = None if ahead else self._next_time(limits, now)
        return entry

    def _claimed(
        self, consumer: Consumer, now: float, *, ahead: bool
    ) -> tuple[Entry | None, OpenLimits[SimulatedRow]]:
        control, parked = self._queue.control, self._queue.contents.parked
        for entry in parked.waking.until(now, MOST_REFUSED):
            control.free(entry)
        opened = OpenKeyedLimits(self._limits, self._known.facts(now, self._runs))
        limits = OpenLimits[SimulatedRow]([opened], self._message_of, slots=not ahead, ahead=ahead)
        for limit, freed in list(limits.frees(limits.most)):
            free = list(islice(parked.of(freed.key), freed.most))
            for entry in free:
                control.free(entry)
            limit.freed(freed, len(free))
        ready = (
            SimulatedRow(entry, entry.suspect)
            for entry in islice(self._queue.browse(), MOST_AHEAD if ahead else None)
        )
        chosen = [item.entry for item in award(ready, 0, limits.most, Situation(), limits=limits).chosen]
        for entry in chosen:
            self._queue.deliveries.take(entry, consumer)
        for (entry, *_), refusal in limits.parked:
            control.park(entry, refusal.key, None if refusal.seconds is None else now + refusal.seconds)
        for entry, *_ in limits.dropped:
            control.discard(entry, Cause.LIMITED)
        taken = [((_number(entry), entry.claim_number), SimulatedRow(entry, entry.suspect)) for entry in chosen]
        for used in limits.writes(taken):
            self._known.use(*used, lambda slot: not self._runs(slot))
        return (chosen[0] if chosen else None), limits

    def _message_of(self, item: SimulatedRow) -> Message:
        return self._messages[_number(item.entry)]

    def _runs(self, slot: Slot) -> bool:
        entry = self._entries[slot.message]
        return entry.is_claimed and entry.claim_number == slot.claim

    def _next_time(self, limits: OpenLimits[SimulatedRow], now: float) -> float | None:
        seconds, waking = limits.next_seconds, self._queue.contents.parked.waking.next_time
        times = [waking] if waking != NEVER else []
        times += [now + seconds] if seconds is not None else []
        return max(min(times), now + LEAST_SECONDS) if times else None


def _number(entry: Entry) -> int:
    return int(entry.message.id)
