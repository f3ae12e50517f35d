"""What a worker's session may do, and what becomes of it: one table of transitions.

A session is the lease of one process on everything that it has claimed. Two threads and the database change it:

    new ──> open <──> uncertain
              │ ^
       missed v │ kept
            missing ──> lost          and from each of them ──> closed

A session that is retired goes through the same states. It only settles, and ends with its last message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.errors import IllegalMove

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Set


class SessionState(StrEnum):
    """What a process knows of the lease of its session."""

    #: It has no row yet, and holds nothing. The first claim opens it.
    NEW = "new"
    #: It claims, begins messages and settles.
    OPEN = "open"
    #: It was not renewed in time: another worker may have its messages. Nothing begins before the next renewal.
    UNCERTAIN = "uncertain"
    #: The database did not know its row, and has not answered yet whether it is revived.
    MISSING = "missing"
    #: Other sessions have some of its messages, or may have. It settles what runs, and nothing begins.
    LOST = "lost"
    #: It has ended. What it still held was given back.
    CLOSED = "closed"


class SessionEvent(StrEnum):
    """What can happen to a session."""

    #: Its row was written.
    OPENED = "opened"
    #: Its deadline may have passed since the last renewal.
    OVERDUE = "overdue"
    #: The database renewed its row.
    RENEWED = "renewed"
    #: The database did not know its row.
    MISSED = "missed"
    #: Its row was written again, and it has all of its messages.
    KEPT = "kept"
    #: Its row was written again without some of its messages.
    ROBBED = "robbed"
    #: Its row could not be written again: another session has its id.
    REPLACED = "replaced"
    #: Its driver leaves it: it claims no more.
    RETIRED = "retired"
    #: It ends, or its process is a forked child, which leaves it to the parent.
    CLOSED = "closed"


class Consequence(Enum):
    """What a process has to do after a transition."""

    #: Write the row again, with the messages that are held.
    REVIVE = auto()
    #: Tell the driver that messages may begin again.
    RESUME = auto()
    #: Wake the driver, and renew.
    LOOK = auto()


S, E, NOTHING = SessionState, SessionEvent, frozenset[Consequence]()
REVIVE, RESUME = frozenset({Consequence.REVIVE}), frozenset({Consequence.RESUME})
LOOK = frozenset({Consequence.LOOK})
#: Workers ask for each message: in Python 3.11, finding a member in its class takes longer than to compare it.
ENDED: Final = (S.LOST, S.CLOSED)
CERTAIN: Final = (S.NEW, S.OPEN)

#: The state after each event, and what to do. An event that is not here cannot happen in that state.
TRANSITIONS: Final[Mapping[tuple[SessionState, SessionEvent], tuple[SessionState, frozenset[Consequence]]]] = {
    (S.NEW, E.OPENED): (S.OPEN, NOTHING),
    (S.NEW, E.RETIRED): (S.NEW, NOTHING),
    (S.NEW, E.CLOSED): (S.CLOSED, NOTHING),
    (S.OPEN, E.OVERDUE): (S.UNCERTAIN, NOTHING),
    (S.OPEN, E.RENEWED): (S.OPEN, NOTHING),
    (S.OPEN, E.MISSED): (S.MISSING, REVIVE),
    (S.OPEN, E.RETIRED): (S.OPEN, NOTHING),
    (S.OPEN, E.CLOSED): (S.CLOSED, NOTHING),
    (S.UNCERTAIN, E.OVERDUE): (S.UNCERTAIN, NOTHING),
    (S.UNCERTAIN, E.RENEWED): (S.OPEN, RESUME),
    (S.UNCERTAIN, E.MISSED): (S.MISSING, REVIVE),
    (S.UNCERTAIN, E.RETIRED): (S.UNCERTAIN, NOTHING),
    (S.UNCERTAIN, E.CLOSED): (S.CLOSED, NOTHING),
    # A revival without an answer may have written the row, with fewer messages than are held here.
    (S.MISSING, E.RENEWED): (S.MISSING, REVIVE),
    (S.MISSING, E.MISSED): (S.MISSING, REVIVE),
    (S.MISSING, E.KEPT): (S.OPEN, LOOK | RESUME),
    (S.MISSING, E.ROBBED): (S.LOST, LOOK),
    (S.MISSING, E.REPLACED): (S.LOST, LOOK),
    (S.MISSING, E.RETIRED): (S.MISSING, NOTHING),
    (S.MISSING, E.CLOSED): (S.CLOSED, NOTHING),
    # A lost session is renewed while it settles, and never revived.
    (S.LOST, E.RENEWED): (S.LOST, NOTHING),
    (S.LOST, E.MISSED): (S.LOST, NOTHING),
    (S.LOST, E.RETIRED): (S.LOST, NOTHING),
    (S.LOST, E.CLOSED): (S.CLOSED, NOTHING),
    # Another thread may have its answer only now, and so may what a signal's handler has interrupted.
    (S.CLOSED, E.RENEWED): (S.CLOSED, NOTHING),
    (S.CLOSED, E.MISSED): (S.CLOSED, NOTHING),
    (S.CLOSED, E.KEPT): (S.CLOSED, NOTHING),
    (S.CLOSED, E.ROBBED): (S.CLOSED, NOTHING),
    (S.CLOSED, E.REPLACED): (S.CLOSED, NOTHING),
    (S.CLOSED, E.RETIRED): (S.CLOSED, NOTHING),
    (S.CLOSED, E.CLOSED): (S.CLOSED, NOTHING),
}


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What a process knows of its session at one moment."""

    state: SessionState = SessionState.NEW
    retired: bool = False
    #: The id of its row; None where it has none.
    id: int | None = None
    #: How often it was revived. Messages claimed before may be another session's.
    revivals: int = 0
    #: When the last successful renewal began.
    confirmed_at: float = float("-inf")

    @property
    def is_lost(self) -> bool:
        """Whether it claims no more, and nothing of it begins: it is lost, or has ended."""
        return self.state in ENDED

    def at(self, now: float, deadline_seconds: float) -> SessionRecord:
        """Return the record at a moment: an open session that was not renewed in time is uncertain."""
        if self.state is SessionState.OPEN and not is_certain(self.confirmed_at, now, deadline_seconds):
            return after(self, SessionEvent.OVERDUE)[0]
        return self

    def may_begin(self, now: float, deadline_seconds: float) -> bool:
        """Whether its messages may begin. A new session has none."""
        return self.at(now, deadline_seconds).state in CERTAIN

    def was_missed_at(self, revivals: int) -> bool:
        """Whether an event of a time with so many revivals is about this record: another may be revived since."""
        return not self.is_revived_since(revivals) and not self.is_lost

    def is_revived_since(self, revivals: int) -> bool:
        """Whether the answer to a statement that began after so many revivals may be older than the last one."""
        return self.revivals != revivals

    def may_hold(self, revivals: int) -> bool:
        """Whether what was claimed after so many revivals is its own. A lost session holds it, to give it back."""
        return not self.is_revived_since(revivals) or self.is_lost


def after(record: SessionRecord, event: SessionEvent) -> tuple[SessionRecord, frozenset[Consequence]]:
    """Return the record after an event, and what to do. Raises IllegalMove."""
    try:
        state, consequences = TRANSITIONS[record.state, event]
    except KeyError:
        raise IllegalMove(f"A session that is {record.state} cannot be {event}") from None
    changed = replace(
        record,
        state=state,
        retired=record.retired or event is E.RETIRED,
        id=None if event in (E.CLOSED, E.REPLACED) else record.id,
        revivals=record.revivals + (event in (E.KEPT, E.ROBBED, E.REPLACED)),
    )
    return changed, consequences


class Revival(NamedTuple):
    """What the answer to a revival means."""

    event: SessionEvent
    #: The claims that the session has no more.
    gone: frozenset[tuple[int, int]]


def revival(
    held: Set[tuple[int, int]], kept: Collection[int] | None, *, was_unanswered: bool, constrained: bool
) -> Revival:
    """Return what a revival means for a session that held these claims, each with the id of its message.

    ``kept`` has the ids of the messages that it has again, or is None where its id names a row already: its own,
    if an earlier revival ``was_unanswered``, and otherwise another session's.
    """
    if kept is None and was_unanswered:
        return Revival(SessionEvent.ROBBED, frozenset())  # the messages that the earlier one kept are unknown
    if kept is None:
        return Revival(SessionEvent.REPLACED, frozenset(held))
    gone = frozenset(claim for claim in held if claim[0] not in kept)
    # In a queue with rules, another session may have the slot or the group by now: what runs may be settled, and
    # nothing else begins.
    robbed = bool(gone) or (constrained and bool(held))
    return Revival(SessionEvent.ROBBED if robbed else SessionEvent.KEPT, gone)


def is_over(record: SessionRecord, held: Collection[object]) -> bool:
    """Whether a retired session has nothing left to wait for."""
    return record.retired and not held


# How long a worker has its lease for certain, and when another process renews it. All times are seconds of one
# clock.

#: The share of a deadline after which a worker counts as silent. A heartbeat that waits for a lock waits for less.
SILENT_SHARE = 1 / 4
#: The states of a process, as Linux names them, in which it works: running, sleeping, waiting for a device, idle.
#: The others are stopped (T), traced (t), zombie (Z) and dead (X).
WORKING = frozenset("RSDI")


#: A worker's loop that makes no turn for this many seconds is named.
STANDING_SECONDS = 60.0


class LoopState(Enum):
    """What a heartbeat knows of the loop that it speaks for."""

    TURNS = auto()
    #: It makes no turn, because of work that runs in it, or because it hangs. The heartbeat cannot tell which: the
    #: worker keeps its messages.
    STANDS = auto()
    #: It will settle nothing any more: the heartbeat ends, too.
    ENDED = auto()


def loop_state(*, is_over: bool, still_seconds: float) -> LoopState:
    """Return the state of a loop that made its last turn so many seconds ago."""
    if is_over:
        return LoopState.ENDED
    return LoopState.STANDS if still_seconds >= STANDING_SECONDS else LoopState.TURNS


def is_certain(confirmed_at: float, now: float, deadline_seconds: float) -> bool:
    """Whether no other worker can have the messages of a session last renewed at ``confirmed_at``.

    A worker that was stopped, or cut off, for longer than the deadline must have its lease confirmed
    before it begins a message.
    """
    return now - confirmed_at < deadline_seconds


def is_silent(silent_seconds: float, deadline_seconds: float) -> bool:
    """Whether a worker with its last heartbeat so many seconds ago may fail to renew its lease in time."""
    return silent_seconds >= deadline_seconds * SILENT_SHARE


def may_be_prolonged(silent_seconds: float, state: str, *, deadline_seconds: float, most_seconds: float) -> bool:
    """Whether another process may renew the lease of a silent worker; ``state`` is that of its process.

    Not for longer than ``most_seconds``: a worker that never comes back must not keep its messages.
    """
    return is_silent(silent_seconds, deadline_seconds) and silent_seconds <= most_seconds and state in WORKING
