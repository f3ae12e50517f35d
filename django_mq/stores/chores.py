"""Which duties of upkeep have something to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chores:
    """Which duties of upkeep have something to do now."""

    reap: bool = True
    promote: bool = True
    expire: bool = True
    trim: bool = True
    #: Operations of the admin that make no progress are to be taken over.
    take_over: bool = False
