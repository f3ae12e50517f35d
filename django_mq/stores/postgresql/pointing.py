"""How far a session has come in a queue: it claims from there, and not from the head.

Entries of deleted messages stay in the index until a vacuum removes them, and no vacuum may while
any old transaction is open. Whoever claims at the head walks over all of them, each time.

A pointer is a speed device only. In each level it says: nothing is ready at or before this place.

    claimed up to X ──> who is writing now? ──> all of them have finished ──> one more claim from the
    old place has found nothing before X ──> the place is X

Only the open transactions can bring something to a place before X: an id is given before its
transaction commits. What comes back to such a place later (released by another session, reaped,
due, rolled back while this session skipped its lock) is found by a whole look: when the session is
told so, when it gives something back itself, and otherwise every so often. A level is never left
out: what is published with a higher priority is behind the place of its own level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.records import Claimed

#: (place, id): where an entry stands within its level.
Spot = tuple[int, int]

#: Before every entry.
START: Spot = (-(2**63), 0)
#: Every level that an entry may have, the first to be delivered first.
LEVELS = range(9, -1, -1)
#: So many messages claimed since the pointer moved make it worth moving.
WORTH_MOVING = 256
#: Seconds between two steps of the pointer.
STEP_SECONDS = 0.1
#: A whole look follows the last one after so many seconds at least and at most; between them, it may
#: take one part in so many of the session's time.
LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.5, 30.0
LOOK_SHARE = 20


class Pointer:
    """One session's way through one queue. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        # Nothing is ready at or before these, by level; a level that is missing is unknown.
        self._places: dict[int, Spot] = {}
        # What was claimed last, by level, and how many since the pointer moved.
        self._claimed: dict[int, Spot] = {}
        self._since = 0
        # Where the pointer may go once ``_writers`` have finished.
        self._aim: dict[int, Spot] | None = None
        self._writers: frozenset[str] = frozenset()
        self._stepped_at = self._looked_at = float("-inf")
        self._pause = LOOK_SECONDS

    def forget(self) -> None:
        """Something came back, nobody knows where: begin at the head."""
        self._places = {}
        self._aim = None

    def seconds_until_look(self, now: float) -> float:
        """Return when to look at the whole queue again; not positive: now."""
        return self._looked_at + self._pause - now if self._places else 0.0

    def places(self) -> list[tuple[int, int, int]]:
        """Return (level, place, id) of every level, in the order of delivery."""
        return [(level, *self._places.get(level, START)) for level in LEVELS]

    # Forward, in steps.

    def wants_step(self, now: float) -> bool:
        """Whether it is worth asking who is writing."""
        busy = self._aim is not None or self._since >= WORTH_MOVING
        return busy and now - self._stepped_at >= STEP_SECONDS

    def step(self, writers: frozenset[str], now: float) -> None:
        """Aim at what was claimed last, or see whether those who were writing then have finished."""
        self._stepped_at = now
        if self._aim is None:
            self._aim, self._writers = dict(self._claimed), writers
        else:
            self._writers &= writers

    # After each claim.

    def has_looked(self, claimed: Sequence[Claimed], *, cut: bool, now: float, seconds: float) -> None:
        """Learn from a claim that has begun at the head, and took so long."""
        self._looked_at = now
        self._pause = min(max(LOOK_SECONDS, LOOK_SHARE * seconds), LONGEST_LOOK_SECONDS)
        if cut:
            self._places = _seen(self._places, claimed[-1]) if claimed else {}
        self.advance(claimed, cut=cut)

    def advance(self, claimed: Sequence[Claimed], *, cut: bool) -> None:
        """Learn from a claim's messages, in order; ``cut`` says that there may have been more.

        The claim must have begun after the last step.
        """
        if not claimed:
            return  # perhaps a message that must travel alone stands at the head
        # Behind this one, in the order of delivery, the claim has not looked.
        end = claimed[-1] if cut else None
        for message in claimed:
            spot = message.place, message.id
            self._claimed[message.level] = max(spot, self._claimed.get(message.level, START))
        self._since += len(claimed)
        if self._aim is not None and not self._writers:
            for level, spot in _seen(self._aim, end).items():
                self._places[level] = max(spot, self._places.get(level, START))
            self._aim, self._since = None, 0


def _seen(spots: dict[int, Spot], end: Claimed | None) -> dict[int, Spot]:
    """Return the spots that a claim has passed which ended there, None for at the queue's end."""
    if end is None:
        return dict(spots)
    passed = {level: spot for level, spot in spots.items() if level >= end.level}
    if end.level in passed:
        passed[end.level] = min(passed[end.level], (end.place, end.id))
    return passed
