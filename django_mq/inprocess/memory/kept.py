"""What a broker keeps of limits by key, and of runs whose messages are gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from django_mq.engine.decisions.ends import Ended
    from django_mq.engine.decisions.keyed_limits import Allowed, KeyState, LimitedKey, Slot


@dataclass(slots=True)
class LimitsOfQueue:
    """What is known of the keys of one queue, by limit and key."""

    states: dict[LimitedKey, KeyState] = field(default_factory=dict)
    held: dict[LimitedKey, float] = field(default_factory=dict)
    allowed: dict[LimitedKey, Allowed] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)


class KnownRun(NamedTuple):
    """A run of a session, with what is told when it ends, and to which listenings."""

    claim: int
    session: int
    told_to: str | None
    ended: Ended
