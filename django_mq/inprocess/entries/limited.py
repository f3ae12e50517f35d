"""What limits by key have used of one queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.keyed_limits import LimitFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import Allowed, KeyState, LimitedKey, Slot

#: A key of which everything has been free for this time is forgotten.
KEPT_SECONDS: Final = 60.0


@dataclass(slots=True)
class LimitsOfQueue:
    """What is known of the keys of one queue, by limit and key."""

    states: dict[LimitedKey, KeyState] = field(default_factory=dict)
    held: dict[LimitedKey, float] = field(default_factory=dict)
    allowed: dict[LimitedKey, Allowed] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)

    def facts(self, now: float, runs: Callable[[Slot], bool]) -> LimitFacts:
        """Return what a claim needs to know. ``runs`` says whether the message of a slot still runs."""
        states = self.states.items()
        return LimitFacts(
            now,
            {key: each.used for key, each in states if each.used.free_at > now or each.waiting_until is not None},
            {key: until for key, until in self.held.items() if until > now},
            dict(self.allowed),
            Counter((slot.limit, slot.key) for slot in self.slots if runs(slot)),
            {key: each.waiting_until for key, each in states if each.waiting_until is not None},
        )

    def use(
        self, states: Mapping[LimitedKey, KeyState], slots: Sequence[Slot], is_over: Callable[[Slot], bool]
    ) -> None:
        """Keep what a claim has used, and forget the slots that are over."""
        self.states |= states
        self.slots = [slot for slot in self.slots if not is_over(slot)] + list(slots)

    def prune(self, now: float) -> int:
        """Forget what says no more than that everything is free; return how many."""
        free = [
            key
            for key, each in self.states.items()
            if each.used.free_at < now - KEPT_SECONDS and each.waiting_until is None
        ]
        ended = [key for key, until in self.held.items() if until < now]
        for key in free:
            del self.states[key]
        for key in ended:
            del self.held[key]
        return len(free) + len(ended)
