"""What limits by key have used of one queue."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions.keyed_limits import MOST_KNOWN, WAITING_SECONDS, LimitFacts, is_free
from django_mq.engine.decisions.rates import lasts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import Allowed, KeyState, LimitedKey, Slot


class KeyHold(NamedTuple):
    """Until when nothing of a key begins, and for how many seconds that was to be."""

    until: float
    seconds: float

    def lasts(self, now: float) -> bool:
        return lasts(self.until, self.seconds, now)


@dataclass(slots=True)
class LimitsOfQueue:
    """What is known of the keys of one queue, by limit and key."""

    states: dict[LimitedKey, KeyState] = field(default_factory=dict)
    held: dict[LimitedKey, list[KeyHold]] = field(default_factory=dict)
    allowed: dict[LimitedKey, Allowed] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    #: Waiting keys by the time at which to ask them. A key that has got another time since is in it several times.
    _times: list[tuple[float, LimitedKey]] = field(default_factory=list)

    def facts(self, now: float, runs: Callable[[Slot], bool], most: int | None = None) -> LimitFacts:
        """Return what a claim needs to know, whole if there is no more than so much of each kind.

        ``runs`` says whether the message of a slot still runs.
        """
        running = Counter((slot.limit, slot.key) for slot in self.slots if runs(slot))
        if most is None or max(len(self.states), len(self.held), len(self.allowed)) <= most:
            return self.of_keys({*self.states, *self.held, *self.allowed}, now)._replace(running=running)
        due = self._due(now, most + 1)
        at_once = {(slot.limit, slot.key) for slot in self.slots}
        known = self.of_keys({*due, *at_once}, now)
        next_at = now if len(due) > most else self._next_at(now)
        return known._replace(running=running, is_whole=False, next_at=next_at)

    def of_keys(self, keys: Collection[LimitedKey], now: float) -> LimitFacts:
        """Return what is known of these keys, but what runs."""
        states = {key: self.states[key] for key in keys if key in self.states}
        held = {key: [hold.until for hold in self.held.get(key, ()) if hold.lasts(now)] for key in keys}
        return LimitFacts(
            now,
            {
                key: each.used
                for key, each in states.items()
                if each.used.free_at > now or each.waiting_until is not None
            },
            {key: max(times) for key, times in held.items() if times},
            {key: self.allowed[key] for key in keys if key in self.allowed},
            {},
            {key: each.waiting_until for key, each in states.items() if each.waiting_until is not None},
        )

    def _waits(self, time: float, key: LimitedKey) -> bool:
        state = self.states.get(key)
        return state is not None and state.waiting_until == time

    def _due(self, now: float, most: int) -> list[LimitedKey]:
        """Return the first waiting keys whose time has come, or whose time the clock was set back before."""
        end, late = (bisect_right(self._times, time, key=_time) for time in (now, now + WAITING_SECONDS))
        asked = chain(islice(self._times, end), self._times[late:])
        return list(islice((key for time, key in asked if self._waits(time, key)), most))

    def _next_at(self, now: float) -> float | None:
        later = map(self._times.__getitem__, range(bisect_right(self._times, now, key=_time), len(self._times)))
        return next((time for time, key in later if self._waits(time, key)), None)

    def use(
        self, states: Mapping[LimitedKey, KeyState], slots: Sequence[Slot], is_over: Callable[[Slot], bool]
    ) -> None:
        """Keep what a claim has used, and forget the slots that are over."""
        for key, state in states.items():
            if state.waiting_until is not None and not self._waits(state.waiting_until, key):
                insort(self._times, (state.waiting_until, key))
        self.states |= states
        if len(self._times) > 2 * len(self.states) + MOST_KNOWN:
            self._times = [(time, key) for time, key in self._times if self._waits(time, key)]
        self.slots = [slot for slot in self.slots if not is_over(slot)] + list(slots)

    def hold(self, key: LimitedKey, until: float, seconds: float) -> None:
        """Let nothing of a key begin until then."""
        self.held.setdefault(key, []).append(KeyHold(until, seconds))

    def prune(self, now: float, is_over: Callable[[Slot], bool]) -> int:
        """Forget what says no more than that everything is free; return how many."""
        known = len(self)
        self.states = {key: each for key, each in self.states.items() if not is_free(*each, now)}
        self.slots = [slot for slot in self.slots if not is_over(slot) or self._is_waiting((slot.limit, slot.key))]
        for key, holds in list(self.held.items()):
            if left := [hold for hold in holds if hold.until > now]:
                self.held[key] = left
            else:
                del self.held[key]
        return known - len(self)

    def _is_waiting(self, key: LimitedKey) -> bool:
        return key in self.states and self.states[key].waiting_until is not None

    def __len__(self) -> int:
        return len(self.states) + len(self.slots) + sum(map(len, self.held.values()))


def _time(entry: tuple[float, LimitedKey]) -> float:
    return entry[0]
