"""Claims in PostgreSQL: settlements and a claim in one statement, or in one round trip, from where a session is.

Entries of deleted messages stay in the index until a vacuum removes them, and no vacuum may while any old
transaction is open. A claim at the head walks over all of them, each time. So a session has a cursor, which is a
speed device only. In each level it says: nothing is ready at or before this place.

    claimed up to X ──> who is writing now? ──> all of them have finished ──> one more claim from the
    old place has found nothing before X ──> the place is X

Only the open transactions can bring something to a place before X: an id is given before its transaction commits.
What comes back to such a place later (released by another session, reaped, due, rolled back while this session
skipped its lock) is found by a full scan: when the session is told so, when it gives something back itself, and
otherwise every so often. A level is never left out: what is published with a higher priority is behind the place
of its own level.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django_mq.engine.verdict import ACCEPT, RELEASE, Verdict
from django_mq.errors import SessionLost
from django_mq.stores.connections import translating
from django_mq.stores.records import ClaimResult
from django_mq.stores.sql.claims import PROMOTE_LIMIT, Claims
from django_mq.stores.sql.messages import ACCEPTED, fence, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.stores.postgresql.database import PostgreSQLDatabase
    from django_mq.stores.records import Claimed, ClaimRequest, Settlement
    from django_mq.stores.sql.database import Asking, Rows, Statement
    from django_mq.stores.sql.store import SQLStore


#: (place, id): where an entry stands within its level.
Spot = tuple[int, int]

#: Before every entry.
START: Spot = (-(2**63), 0)
#: Every level that an entry may have, the first to be delivered first.
LEVELS = range(9, -1, -1)
#: So many messages claimed since the cursor moved make it worth moving.
WORTH_MOVING = 256
#: Seconds between two steps of the cursor.
STEP_SECONDS = 0.1
#: A full scan follows the last one after so many seconds at least and at most; between them, it may
#: take one part in so many of the session's time.
LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.5, 30.0
LOOK_SHARE = 20


class ScanCursor:
    """One session's way through one queue. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        # Nothing is ready at or before these, by level; a level that is missing is unknown.
        self._places: dict[int, Spot] = {}
        # What was claimed last, by level, and how many since the cursor moved.
        self._claimed: dict[int, Spot] = {}
        self._since = 0
        # Where the cursor may go once ``_writers`` have finished.
        self._aim: dict[int, Spot] | None = None
        self._writers: frozenset[str] = frozenset()
        self._stepped_at = self._looked_at = float("-inf")
        self._pause = LOOK_SECONDS

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


#: What answers everything at once in place of a claim: without settlements, and with them.
AT_ONCE = {
    "claim": ("claim_alone", "settle_and_claim"),
    "claim_across": ("claim_alone_across", "settle_and_claim_across"),
    "claim_across_apart": ("claim_alone_across_apart", "settle_and_claim_across_apart"),
    "claim_from_cursor": ("claim_alone_from_cursor", "settle_and_claim_from_cursor"),
}
#: The columns before those of a claim.
ANSWER_COLUMNS = 3
#: Verdicts that need answers before they are written: where the message goes.
ASKING = (Verdict.DEAD, Verdict.EXPIRE)


def numbers(values: Iterable[int]) -> str:
    """Return an array of numbers as its text: what psycopg does for any array takes ten times as long."""
    return "{" + ",".join(map(str, values)) + "}"


class PostgreSQLClaims(Claims):
    """Claim from where a session has come to, and settle on the way."""

    promotes_at_once = True
    database: PostgreSQLDatabase

    def __init__(self, store: SQLStore) -> None:
        super().__init__(store)
        #: Queue to how far this store's session has come in it.
        self.cursors: defaultdict[str, ScanCursor] = defaultdict(ScanCursor)

    def look_again(self) -> None:
        """Begin at the head of each queue: what is given back stands at a place that was passed."""
        self.cursors.clear()

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult | None:
        """Settle and claim on a connection of its own; None, and nothing done, for what takes several steps."""
        accepted = all(item.verdict is ACCEPT and item.failure is None for item in settlements)
        if not accepted and any(item.verdict is RELEASE for item in settlements):
            self.look_again()
        # Verdicts that write more than the message's own row need answers in between.
        plain = accepted or all(item.verdict not in ASKING and item.failure is None for item in settlements)
        constrained = request is not None and self.store.queues.have_rules(request.queues, idle=not settlements)
        if not (self.database.private and plain):
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
            # What came too late and counts all the same; that is seldom, and asked apart.
            late = [item for item in settlements if item.id in result.void]
            result.void = self.store.settlements.settle(session_id, late)
        return result

    def _claim_statement(self, session_id: int, request: ClaimRequest) -> tuple[str, dict[str, Any]]:
        name, params = super()._claim_statement(session_id, request)
        if name == "claim_across" and min(params["limits"]) < request.credit:
            name = "claim_across_apart"
        return name, params

    def _one_statement(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest
    ) -> ClaimResult:
        """Do what a busy worker does all the time; a statement alone is a transaction."""
        name, params = self._claim_statement(session_id, request)
        params["queues"] = list(request.queues)
        if settlements:
            params |= fence(session_id, settlements) | {"outcome": ACCEPTED}
            params |= {name: numbers(params[name]) for name in ("ids", "claims")}
        if name != "claim":
            return self._answered(name, params, request)
        return self._from_cursor(params, request)

    def _answered(self, name: str, params: dict[str, Any], request: ClaimRequest) -> ClaimResult:
        """Run a claim in the form that settles as well, if there is anything to settle. Raises SessionLost."""
        rows = self.database.prepared_rows(AT_ONCE[name]["ids" in params], params)
        alive, due, void = rows[0][:ANSWER_COLUMNS]
        if not alive:
            raise SessionLost
        found = [row[ANSWER_COLUMNS:] for row in rows if row[ANSWER_COLUMNS] is not None]
        result = self._result_of(found, request, due)
        result.void = frozenset(void or ())
        return result

    def _from_cursor(self, params: dict[str, Any], request: ClaimRequest) -> ClaimResult:
        """Claim from where this session knows the ready messages to begin, or look at the whole queue."""
        cursor, begin = self.cursors[request.queues[0]], time.monotonic()
        if cursor.wants_step(begin):
            cursor.step(frozenset(row[0] for row in self.rows("writers")), begin)
        if request.full_scan or cursor.seconds_until_look(begin) <= 0:
            result = self._answered("claim", params, request)
            self._has_looked(request, result, begin)
            return result
        columns = zip(("levels", "places", "passed"), zip(*cursor.places(), strict=True), strict=True)
        spots = {name: numbers(column) for name, column in columns}
        result = self._answered("claim_from_cursor", params | spots, request)
        cursor.advance(result.claimed, cut=result.more)
        if not result.more:
            # Something may have come back to a place that was passed, and nobody says so in time.
            result.full_scan = False
            due, soon = result.next_due_seconds, max(0.0, cursor.seconds_until_look(time.monotonic()))
            result.next_due_seconds = soon if due is None else min(due, soon)
        return result

    def _has_looked(self, request: ClaimRequest, result: ClaimResult, begin: float) -> None:
        end = time.monotonic()
        # A message that must travel alone, and found no slot, stands in front unseen.
        cut = result.more or (request.slots <= 0 and not result.claimed)
        self.cursors[request.queues[0]].has_looked(result.claimed, cut=cut, now=end, seconds=end - begin)

    def _one_round_trip(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        begin = time.monotonic()
        settling = list(statements(session_id, settlements))
        claiming = [] if request is None else self._claiming(session_id, request)
        with self.database.conversation() as ask:
            answers = ask(settling + claiming, is_last=True)
        done = {row[0] for rows in answers[: len(settling)] for row in rows}
        result = ClaimResult()
        if request is not None:
            alive, _, rows, due = answers[len(settling) :]
            if not alive:
                raise SessionLost
            result = self._result_of(rows, request, due[0][0])
            if len(request.queues) == 1:
                self._has_looked(request, result, begin)
        result.void = frozenset(item.id for item in settlements) - done
        return result

    def _claiming(self, session_id: int, request: ClaimRequest) -> list[Statement]:
        queues = {"queues": list(request.queues)}
        return [
            ("session_alive", {"session": session_id}),
            ("promote_due", queues | {"limit": PROMOTE_LIMIT}),
            self._claim_statement(session_id, request),
            ("next_due", queues),
        ]

    def _lease(self, ask: Asking, **chosen: Any) -> Rows:
        [rows] = ask([("claim_chosen", chosen)], is_last=True)
        return rows
