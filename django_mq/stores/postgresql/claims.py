"""Claims in PostgreSQL: settle and claim in one statement, or in one round trip, from the session's cursor.

The index has entries of deleted messages until a vacuum removes them, which no vacuum may do while an old
transaction is open. A claim at the head would walk over all of them, each time. So a session has a cursor for each
queue, for speed only. It says for each level: no message is ready at or before this place.

    claimed up to X ──> which transactions write now? ──> all of them have finished ──> one more claim from
    the old place has found nothing before X ──> the place is X

Only the open transactions can commit a message before X, because an id is given before its transaction commits. A
full scan finds messages that come back to such a place later (released by another session, reaped, due, locked by
a transaction that was rolled back). A session makes a full scan when it is told to, when it gives a message back
itself, when a scheduled message is due that it has heard of, and every so often. No level is left out: a message
of a higher priority is behind the place of its level.

In a sorted or fair queue a new message may have any place, so there is no cursor: each claim begins at the head.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mq.engine.decisions.claim import limit_of
from django_mq.engine.decisions.selection import Assignment
from django_mq.engine.decisions.verdict import ACCEPT, DECLINE, RELEASE, Verdict
from django_mq.errors import SessionLost
from django_mq.stores import queue_records
from django_mq.stores.connections import translating
from django_mq.stores.postgresql.database import numbers
from django_mq.stores.records import Claimed, ClaimResult
from django_mq.stores.sql.claims import PROMOTE_LIMIT, Claims, Resume, refuse_consumers
from django_mq.stores.sql.messages import ACCEPTED
from django_mq.stores.sql.settlements import fence, statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.stores.postgresql.database import PostgreSQLDatabase
    from django_mq.stores.records import ClaimRequest, Settlement
    from django_mq.stores.sql.claims import Chosen, Ready
    from django_mq.stores.sql.database import Asking, Rows, Statement


#: What a claim has brought, or has parked.
Passed: TypeAlias = "Claimed | Ready"
#: (place, id): the position of an entry in its level.
Spot = tuple[int, int]

#: Before every entry.
START: Spot = (-(2**63), 0)
#: All levels in the order of delivery.
LEVELS = range(9, -1, -1)
#: Claimed messages after which the cursor moves.
WORTH_MOVING = 256
#: Seconds between two steps of the cursor.
STEP_SECONDS = 0.1
#: The least and the most seconds between two full scans; between these bounds, full scans take at most one part in
#: LOOK_SHARE of the session's time.
LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.5, 30.0
LOOK_SHARE = 20


class ScanCursor:
    """The cursor of one session in one queue. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        # No message is ready at or before these, by level; a missing level is unknown.
        self._places: dict[int, Spot] = {}
        # The last claimed message by level, and how many were claimed since the cursor moved.
        self._claimed: dict[int, Spot] = {}
        self._since = 0
        # Where the cursor may go once ``_writers`` have finished.
        self._aim: dict[int, Spot] | None = None
        self._writers: frozenset[str] = frozenset()
        self._stepped_at = self._looked_at = float("-inf")
        self._pause = LOOK_SECONDS
        # The earliest time at which a message is due that was scheduled at a claim since the last full scan.
        self._due_at = float("inf")

    def seconds_until_look(self, now: float) -> float:
        """Return the time until the next full scan; 0 or less is now."""
        return min(self._looked_at + self._pause, self._due_at) - now if self._places else 0.0

    def expect(self, due_seconds: float | None, now: float) -> None:
        """Look when this message is due: another session may make it ready, at a place that was passed.

        ``now`` is before the question: an answer that comes late must not make the look late.
        """
        if due_seconds is not None:
            self._due_at = min(self._due_at, now + due_seconds)

    def places(self) -> list[tuple[int, int, int]]:
        """Return (level, place, id) of every level, in the order of delivery."""
        return [(level, *self._places.get(level, START)) for level in LEVELS]

    # Forward, in steps.

    def wants_step(self, now: float) -> bool:
        """Whether to ask for the open transactions that write."""
        busy = self._aim is not None or self._since >= WORTH_MOVING
        return busy and now - self._stepped_at >= STEP_SECONDS

    def step(self, writers: frozenset[str], now: float) -> None:
        """Aim at the last claimed messages, or note which of the transactions have finished."""
        self._stepped_at = now
        if self._aim is None:
            self._aim, self._writers = dict(self._claimed), writers
        else:
            self._writers &= writers

    # After each claim.

    def has_looked(self, claimed: Sequence[Passed], *, cut: bool, now: float, seconds: float) -> None:
        """Learn from a claim that began at the head, and took so many seconds."""
        self._looked_at, self._due_at = now, float("inf")
        self._pause = min(max(LOOK_SECONDS, LOOK_SHARE * seconds), LONGEST_LOOK_SECONDS)
        if cut:
            self._places = _seen(self._places, claimed[-1]) if claimed else {}
        self.advance(claimed, cut=cut)

    def advance(self, claimed: Sequence[Passed], *, cut: bool) -> None:
        """Learn from the messages of a claim after the last step; ``cut`` says that there may be more."""
        if not claimed:
            return  # perhaps a suspect is at the head
        # The claim has not looked behind this message.
        end = claimed[-1] if cut else None
        for message in claimed:
            spot = message.place, message.id
            self._claimed[message.level] = max(spot, self._claimed.get(message.level, START))
        self._since += len(claimed)
        if self._aim is not None and not self._writers:
            for level, spot in _seen(self._aim, end).items():
                self._places[level] = max(spot, self._places.get(level, START))
            self._aim, self._since = None, 0


class SelectingCursor(ScanCursor):
    """The cursor of claims by selectors, which pass messages that no handler of the session wants.

    It also passes messages that were not claimed: a claim sees each message that had arrived before it began, and
    whose transaction had finished.
    """

    def wants_step(self, now: float) -> bool:
        return now - self._stepped_at >= STEP_SECONDS

    def take_step(self, last: Rows, writers: Rows) -> None:
        """Aim at the last number that was given to a message, as of before the open transactions were read."""
        if self._aim is None:
            self._claimed = dict.fromkeys(LEVELS, (0, last[0][0]))
        self.step(frozenset(row[0] for row in writers), time.monotonic())

    def advance(self, claimed: Sequence[Passed], *, cut: bool) -> None:
        if (cut and not claimed) or self._aim is None or self._writers:
            return
        for level, spot in _seen(self._aim, claimed[-1] if cut else None).items():
            self._places[level] = max(spot, self._places.get(level, START))
        self._aim = None


def _seen(spots: dict[int, Spot], end: Passed | None) -> dict[int, Spot]:
    """Return the spots that a claim has passed; it ended at this message, None for the end of the queue."""
    if end is None:
        return dict(spots)
    passed = {level: spot for level, spot in spots.items() if level >= end.level}
    if end.level in passed:
        passed[end.level] = min(passed[end.level], (end.place, end.id))
    return passed


#: What a cursor by selectors asks, in this order: every message up to the last number is committed, or its
#: transaction is open.
STEP: list[Statement] = [("last_arrival", {}), ("writers", {})]
#: The columns before those of a claimed message.
ANSWER_COLUMNS = 3
#: Verdicts that write more than the message's row.
ASKING = (Verdict.DEAD, Verdict.EXPIRE, DECLINE, Verdict.BEGIN, Verdict.END)


def spots(cursor: ScanCursor) -> dict[str, str]:
    """Return a cursor as the parameters of a statement."""
    columns = zip(("levels", "places", "passed"), zip(*cursor.places(), strict=True), strict=True)
    return {name: numbers(column) for name, column in columns}


#: A queue; for a claim by selectors with each handler's, and whether the claim is for it.
CursorKey: TypeAlias = str | tuple[str, tuple[tuple[str, bool], ...]]


def cursor_key(request: ClaimRequest) -> CursorKey:
    [queue] = request.queues
    if queue not in request.wanted:
        return queue
    return queue, tuple((each.selector.text, each.limit > 0) for each in request.wanted[queue])


class ResumeFromCursor(Resume):
    """A claim from a queue with limits, which does not walk over the entries of messages that claims have parked.

    With ``spots`` it begins at the cursor, else at the head.
    """

    def __init__(
        self, cursor: SelectingCursor, steps: Sequence[Statement], spots: Mapping[str, Any], begin: float
    ) -> None:
        self.steps, self.spots = steps, spots
        self._cursor, self._begin = cursor, begin

    def from_head(self) -> Resume:
        return ResumeFromCursor(self._cursor, self.steps, {}, self._begin)

    def has_seen(self, steps: Sequence[Rows], heads: Sequence[Chosen], result: ClaimResult) -> None:
        cursor = self._cursor
        if steps:
            cursor.take_step(*steps)
        if not heads:
            return
        [head] = heads
        passed = head.passed({message.id for message in result.claimed})
        cut, now = not head.is_whole or len(passed) < len(head.seen), time.monotonic()
        if self.spots:
            cursor.advance(passed, cut=cut)
            # A message may have come back to a place that was passed.
            soon, due = max(0.0, cursor.seconds_until_look(now)), result.next_due_seconds
            result.full_scan, result.next_due_seconds = False, soon if due is None else min(due, soon)
        else:
            cursor.has_looked(passed, cut=cut, now=now, seconds=now - self._begin)


@dataclass(eq=False)
class PostgreSQLClaims(Claims):
    promotes_at_once = True
    database: PostgreSQLDatabase

    cursors: defaultdict[CursorKey, ScanCursor] = field(
        init=False, default_factory=lambda: defaultdict(ScanCursor)
    )

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        self._look_again()
        return super().resync(session_id, held)

    def _look_again(self) -> None:
        # Messages that are given back are at places that the cursors have passed.
        self.cursors.clear()

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        refuse_consumers(None if request is None else request.consumer)
        self._let_values_arrive(request)
        result = self._settle_and_claim_at_once(session_id, settlements, request)
        return super().settle_and_claim(session_id, settlements, request) if result is None else result

    def _settle_and_claim_at_once(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult | None:
        """Settle and claim on a private connection; do nothing and return None if that takes several steps."""
        accepted = all(item.verdict is ACCEPT and item.failure is None for item in settlements)
        if not accepted and any(item.verdict is RELEASE for item in settlements):
            self._look_again()
        # Verdicts that write more than the message's own row need answers in between.
        plain = accepted or all(item.verdict not in ASKING and item.failure is None for item in settlements)
        told = any(item.told_to is not None and self.ends.takes_steps(item) for item in settlements)
        constrained = request is not None and self.needs_facts(session_id, request)
        if told or not (self.database.private and plain):
            return None
        with self.database.alone(), translating(self.database.connection):
            if constrained and request is not None:
                settling = list(statements(session_id, settlements))
                result, answers = self.by_rules(session_id, request, settling)
                done = {row[0] for rows in answers for row in rows}
                result.void = frozenset(item.id for item in settlements) - done
            elif request is not None and accepted and not request.promote:
                result = self._one_statement(session_id, settlements, request)
            else:
                result = self._one_round_trip(session_id, settlements, request)
        if result.void:
            # A late settlement counts if its message has not changed since; that is rare.
            late = [item for item in settlements if item.id in result.void]
            result.void = self.settlements.settle(session_id, late)
        return result

    def _claim_statement(self, session_id: int, request: ClaimRequest) -> tuple[str, dict[str, Any]]:
        name, params = super()._claim_statement(session_id, request)
        if name == "claim_across" and min(params["limits"]) < request.credit:
            name = "claim_across_by_limits"
        if name == "claim":
            name = "claim_declared" if "meets" in params else name
        elif "wanted" in params:
            params |= spots(ScanCursor())
        params |= {name: numbers(params[name]) for name in ("met_by", "meets") if name in params}
        return name, params | {"alone": True}

    def _one_statement(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest
    ) -> ClaimResult:
        """Settle and claim in one statement, which is a transaction by itself."""
        name, params = self._claim_statement(session_id, request)
        if settlements:
            params |= fence(session_id, settlements) | {"outcome": ACCEPTED, "alone": False}
            params |= {name: numbers(params[name]) for name in ("ids", "claims")}
        # An index of declared selectors passes nothing.
        if not self._has_cursor(request) or name == "claim_declared":
            return self._answered(self.database.prepared_rows(name, params), request)
        return self._from_cursor(name, params, request)

    def _stepping(self, name: str, params: dict[str, Any], cursor: SelectingCursor | None) -> Rows:
        """Run a claim; a cursor that is to step asks its questions in the same round trip, before the claim."""
        if cursor is None:
            return self.database.prepared_rows(name, params)
        *answers, rows = self.database.sent([*STEP, (name, params)])
        cursor.take_step(*answers)
        return rows

    def _ready(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        return self._answered(self._claim_rows(session_id, request), request)

    def _answered(self, rows: Rows, request: ClaimRequest) -> ClaimResult:
        """Return the result of a claim from its rows. Raises SessionLost."""
        alive, due, void = rows[0][:ANSWER_COLUMNS]
        if not alive:
            raise SessionLost
        found = [row[ANSWER_COLUMNS:] for row in rows if row[ANSWER_COLUMNS] is not None]
        result = self._result_of(found, request, due)
        result.void = frozenset(void or ())
        return result

    def _from_cursor(self, name: str, params: dict[str, Any], request: ClaimRequest) -> ClaimResult:
        """Claim from the session's cursor, or with a full scan."""
        cursor, begin = self._cursor(request), time.monotonic()
        steps = None
        if cursor.wants_step(begin):
            if isinstance(cursor, SelectingCursor):
                steps = cursor
            else:
                cursor.step(frozenset(row[0] for row in self.rows("writers")), begin)
        if request.full_scan or cursor.seconds_until_look(begin) <= 0:
            result = self._answered(self._stepping(name, params, steps), request)
            self._has_looked(request, result, begin)
            return result
        name = "claim_from_cursor" if name == "claim" else name
        result = self._answered(self._stepping(name, params | spots(cursor), steps), request)
        cursor.advance(self._passed(request, result), cut=self._is_cut(request, result))
        cursor.expect(result.next_due_seconds, begin)
        if not result.more:
            # A message may have come back to a place that was passed.
            result.full_scan = False
            due, soon = result.next_due_seconds, max(0.0, cursor.seconds_until_look(time.monotonic()))
            result.next_due_seconds = soon if due is None else min(due, soon)
        return result

    def _has_cursor(self, request: ClaimRequest) -> bool:
        if len(request.queues) != 1:
            return False
        record = queue_records.remembered(self.database.alias, request.queues[0])
        return record is None or not (record.sort_key or record.fair_by)

    def _resume(self, session_id: int, request: ClaimRequest) -> Resume:
        if not self._has_cursor(request) or request.wanted or self.declines.have(session_id, request.queues):
            return Resume()
        [name] = request.queues
        record = queue_records.remembered(self.database.alias, name)
        if record is None or not record.has_claim_limits or record.depends_on_others:
            return Resume()
        cursor, begin = self.cursors[name, ()], time.monotonic()
        if not isinstance(cursor, SelectingCursor):
            cursor = self.cursors[name, ()] = SelectingCursor()
        steps = STEP if cursor.wants_step(begin) else ()
        looks = request.full_scan or request.promote or cursor.seconds_until_look(begin) <= 0
        return ResumeFromCursor(cursor, steps, {} if looks else spots(cursor), begin)

    def _cursor(self, request: ClaimRequest) -> ScanCursor:
        key = cursor_key(request)
        if key not in self.cursors:
            self.cursors[key] = SelectingCursor() if isinstance(key, tuple) else ScanCursor()
        return self.cursors[key]

    def _is_cut(self, request: ClaimRequest, result: ClaimResult) -> bool:
        """Whether a claim may have left messages that it could not take."""
        # A suspect without a free slot, or a message without enough credit, may be at the head.
        unable = request.slots <= 0 or bool(request.byte_credit)
        return result.more or (unable and not result.claimed)

    def _passed(self, request: ClaimRequest, result: ClaimResult) -> Sequence[Claimed]:
        """Return the claimed messages up to which the claim has left none."""
        [queue] = request.queues
        wanted, claimed = request.wanted.get(queue, ()), result.claimed
        if len(wanted) < 2 or not result.more:
            return claimed
        passed = Assignment(wanted, Claimed.as_message).until_used_up(claimed)
        if passed is None:
            # Another transaction may have locked what one handler wants.
            passed = claimed if len(claimed) >= limit_of(request, queue) else []
        return passed

    def _has_looked(self, request: ClaimRequest, result: ClaimResult, begin: float) -> None:
        end = time.monotonic()
        cut = self._is_cut(request, result)
        passed = self._passed(request, result)
        cursor = self._cursor(request)
        cursor.has_looked(passed, cut=cut, now=end, seconds=end - begin)
        cursor.expect(result.next_due_seconds, begin)

    def _one_round_trip(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        begin = time.monotonic()
        settling = list(statements(session_id, settlements))
        claiming: list[Statement] = []
        if request is not None:
            promoting = {"queues": list(request.queues), "limit": PROMOTE_LIMIT}
            claiming = [("promote_due", promoting), self._claim_statement(session_id, request)]
        cursor = None
        # A claim from several queues reads one of them if the handlers of the others have no credit.
        if request is not None and self._has_cursor(request) and claiming[-1][0] == "claim":
            cursor = self._cursor(request)
            if isinstance(cursor, SelectingCursor) and cursor.wants_step(begin):
                cursor.take_step(*self.database.sent(STEP))
        with self.database.conversation() as ask:
            answers = ask(settling + claiming, is_last=True)
        done = {row[0] for rows in answers[: len(settling)] for row in rows}
        result = ClaimResult()
        if request is not None:
            result = self._answered(answers[-1], request)
            if cursor is not None:
                self._has_looked(request, result, begin)
        result.void = frozenset(item.id for item in settlements) - done
        return result

    def _lease(self, ask: Asking, moving: Sequence[Statement], **chosen: Any) -> Rows:
        *_, rows = ask([*moving, ("claim_chosen", chosen)], is_last=True)
        return rows
