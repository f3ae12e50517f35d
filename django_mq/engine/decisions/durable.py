"""What a durable handler gets when it asks for a step, a sleep or an event: the rule of replay.

A durable handler runs again from its beginning after each sleep, failure or death of its worker. What it asks for
is compared, in order, with what is recorded of its message. The code may only take the way that is recorded, and
goes on behind the last record.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The most characters of the names of steps and events, and of the keys of events.
NAME_LENGTH: Final = 200


class StepKind(Enum):
    """What a durable handler asks for."""

    STEP = "step"
    SLEEP = "sleep"
    WAIT = "wait"
    #: Whether the message takes the way of code that was changed.
    PATCH = "patch"


class StepOutcome(Enum):
    """How what was asked for stands."""

    #: A sleep or a wait that has not ended, as far as is recorded.
    OPEN = "open"
    DONE = "done"
    #: A sleep that was ended early by code or by an operator.
    WOKEN = "woken"
    TIMED_OUT = "timed_out"


class Record(NamedTuple):
    """What is recorded of one thing that the handler has asked for."""

    kind: StepKind
    #: Of a wait, the event and its key.
    name: str
    key: str
    #: How many records before it have this kind, name and key.
    number: int
    outcome: StepOutcome = StepOutcome.DONE
    #: The result, in JSON.
    result: str = "null"
    #: When a sleep or a wait ends, in seconds since 1970; None if it has no end.
    until: float | None = None

    @property
    def identity(self) -> tuple[StepKind, str, str, int]:
        """What another run of the same code has at the same place."""
        return self[:4]


class Turn(Enum):
    """What to do for a durable handler."""

    #: Nothing is recorded here: do it, and record it.
    RUN = "run"
    #: It was done: return what is recorded.
    RETURN = "return"
    #: It ended without an event: raise what is recorded.
    TIME_OUT = "time_out"
    #: It is not over: end the attempt until then.
    WAIT = "wait"
    #: Its time has come.
    WAKE = "wake"
    #: The message has passed this place before the code was changed.
    OLD = "old"
    #: Something else is recorded at this place.
    REFUSE = "refuse"


class Reply(NamedTuple):
    """What to do, the place of the record that says so or is to be made, and the record if there is one."""

    act: Turn
    place: int
    record: Record | None = None


def replay(records: Sequence[Record], place: int, asked: Record, now: float) -> Reply:
    """Return what to do for a handler that asks for this, after it has used ``place`` records.

    Records of patches that the code does not ask for any more are passed over. A record with others behind it is
    over by any clock: the handler has gone on.
    """
    if asked.kind is StepKind.PATCH:
        return _patched(records, place, asked)
    while place < len(records) and records[place].kind is StepKind.PATCH:
        place += 1
    if place >= len(records):
        return Reply(Turn.RUN, place)
    found = records[place]
    if found.identity != asked.identity:
        return Reply(Turn.REFUSE, place, found)
    if found.outcome is StepOutcome.OPEN:
        is_last = place == len(records) - 1
        is_over = found.until is not None and now >= found.until
        return Reply(Turn.WAIT if is_last and not is_over else Turn.WAKE, place, found)
    return Reply(Turn.TIME_OUT if found.outcome is StepOutcome.TIMED_OUT else Turn.RETURN, place, found)


def _patched(records: Sequence[Record], place: int, asked: Record) -> Reply:
    first = place
    while first and records[first - 1].kind is StepKind.PATCH:  # in any order
        first -= 1
    for later in range(first, len(records)):
        found = records[later]
        if found.kind is not StepKind.PATCH:
            return Reply(Turn.OLD, place, found)
        if found.name == asked.name:
            return Reply(Turn.RETURN, max(place, later + 1) - 1, found)
    return Reply(Turn.RUN, len(records))


def difference(found: Record, asked: Record) -> str:
    """Say what is recorded, and what the handler asks for instead."""
    return f"{_named(found)} is recorded, and the handler asks for {_named(asked)}"


def _named(record: Record) -> str:
    repeat = f", number {record.number + 1} of this name," if record.number else ""
    named = " ".join(repr(text) for text in (record.name, record.key) if text)
    return f"the {record.kind.value} {named}".rstrip() + repeat
