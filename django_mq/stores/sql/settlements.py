"""Leases, and their settlements, each fenced by its claim token."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.decisions.ends import END_OF_VERDICT, End
from django_mq.engine.decisions.last_value import BY_LATER_VALUE
from django_mq.engine.decisions.verdict import BY_EXPIRY, DECLINE, PARK, RELEASE, Verdict
from django_mq.stores.records import failed_attempt, storable
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.sql.messages import ACCEPTED, CANCELLED, EXPIRED, FORWARDED, REPLACED
from django_mq.stores.sql.parking import stored_key
from django_mq.stores.subjects import claims as subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from django_mq.stores.records import Failure, Receipt, Settlement
    from django_mq.stores.sql.database import Rows, Statement
    from django_mq.stores.sql.ends import Ends
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.moves import Moves
    from django_mq.stores.sql.runs import BegunTasks


#: When a session of this process last declined a message: by alias, session and queue, on the monotonic clock. All
#: stores of the process share it: the heartbeat's store settles, too.
_declined_at: dict[tuple[str, int, str], float] = {}
#: A settlement is committed within so many seconds.
COMMIT_SECONDS = 60.0


def fence(session_id: int, settlements: Sequence[Settlement]) -> dict[str, Any]:
    return {
        "session": session_id,
        "ids": [item.id for item in settlements],
        "claims": [item.claim for item in settlements],
    }


def by_claim(settlements: Sequence[Settlement]) -> Iterator[Sequence[Settlement]]:
    """Yield batches with one claim of each message: the id of a settled message then names the settlement."""
    while settlements:
        claims = dict(item.receipt for item in reversed(settlements))
        yield [item for item in settlements if claims[item.id] == item.claim]
        settlements = [item for item in settlements if claims[item.id] != item.claim]


class Declines(Part):
    """Which sessions have declined messages of a queue, so that their claims leave these out."""

    def note(self, session_id: int, ids: Sequence[int]) -> None:
        for (name,) in self.rows("queues_of", ids=list(ids)):
            _declined_at[self._key(session_id, name)] = time.monotonic()
        self.rows("note_declined", session=session_id, ids=list(ids))

    def have(self, session_id: int, names: Iterable[str]) -> bool:
        """Whether the session may have declined messages of one of these queues."""
        return bool(_declined_at) and any(self._key(session_id, name) in _declined_at for name in names)

    def forget(self, session_id: int, name: str) -> None:
        """Take note that nothing is left which the session has declined, unless that is not committed yet."""
        key = self._key(session_id, name)
        if time.monotonic() - _declined_at.get(key, 0.0) > COMMIT_SECONDS:
            _declined_at.pop(key, None)

    def _key(self, session_id: int, name: str) -> tuple[str, int, str]:
        return self.database.alias, session_id, name


@dataclass(eq=False)
class Leases(Part):
    """What sessions hold, taken again or given back."""

    messages: Messages
    last_values: LastValues
    ends: Ends

    def retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        """Claim messages again that carry the token of the session's claim; return the ids that it holds then.

        Those are marked that a later value would have replaced, had the session not been dead.
        """
        ids = self._retake(session_id, receipts)
        if ids:
            self.last_values.mark_outdone(ids)
            self.ends.tell(self.ends.among([*ids], End.RETAKEN), dict.fromkeys(ids, End.RETAKEN))
        return ids

    def _retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        ids, claims = map(list, zip(*receipts, strict=True))
        return set(first_of(self.rows("retake", session=session_id, ids=ids, claims=claims)))

    def release(self, session_id: int) -> int:
        """Give back all messages of a session, uncounted; return how many."""
        return self._released(session_id, frozenset(), "release_session")

    def release_unknown(self, session_id: int, held: Sequence[int]) -> int:
        """Give back the messages of a session but these, uncounted; return how many."""
        return self._released(session_id, frozenset(held), "release_unknown", held=list(held))

    def _released(self, session_id: int, kept: frozenset[int], statement: str, **given: Any) -> int:
        is_told = any(End.GIVEN_BACK in each.ends for each in conf.extensions().ends)
        marks = self.ends.held(session_id, End.GIVEN_BACK) if is_told else {}
        replaced = first_of(self.rows("held_replaced", session=session_id, replaced=BY_LATER_VALUE))
        released = len(self.rows(statement, session=session_id, **given))
        if replaced:
            self.messages.drop_replaced(replaced)
        if marks:
            self.ends.tell(marks, dict.fromkeys(marks.keys() - kept, End.GIVEN_BACK))
        return released

    def release_held_by_expired(self, sessions: Sequence[int]) -> Rows:
        """Give back the messages of expired sessions, and of sessions that do not exist.

        Returns session id, id, whether the attempt counts, the attempts, how many the queue allows, and the claim.
        """
        released = self._release_held_by_expired(sessions)
        ids = [row[1] for row in released]
        self.ends.tell(self.ends.among(ids, End.LOST), dict.fromkeys(ids, End.LOST))
        return released

    def _release_held_by_expired(self, sessions: Sequence[int]) -> Rows:
        return self.rows("release_held_by_expired", sessions=list(sessions))


@dataclass(eq=False)
class Settlements(Part, subjects.Settlements):
    messages: Messages
    moves: Moves
    leases: Leases
    declines: Declines
    ends: Ends
    runs: BegunTasks

    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        done = set[int]()
        all_given, ending = settlements, [item for item in settlements if item.verdict is Verdict.END]
        if ending:
            settlements = [item for item in settlements if item.verdict is not Verdict.END]
        # An error ends the caller's transaction: a savepoint would cost a transactional handler two round trips.
        with nullcontext() if self.database.in_transaction else self.database.transaction():
            for batch in by_claim(settlements):
                held = self._settle_held(session_id, batch)
                late = [item for item in batch if item.id not in held]
                receipts = [item.receipt for item in late]
                if late and (retaken := self.leases.retake(session_id, receipts)):
                    held |= self._settle_held(session_id, [item for item in late if item.id in retaken])
                done |= held
            done |= self.runs.end(session_id, ending) if ending else set()
        return frozenset(item.id for item in all_given) - done

    def _settle_held(self, session_id: int, settlements: Sequence[Settlement]) -> set[int]:
        held = self._held(session_id, settlements)
        for item in held:
            if item.marks:
                self.mark(session_id, item.receipt, item.told_to)
        marks = self.ends.settling(held) if any(item.told_to for item in held) else {}
        expired = [item for item in held if item.verdict is Verdict.EXPIRE]
        leaving = self._leaving([item.id for item in expired])
        staying = [item for item in held if item.verdict is not Verdict.EXPIRE or item.id not in leaving]
        if beginning := [item.receipt for item in held if item.verdict is Verdict.BEGIN]:
            self.runs.begin(session_id, beginning)
        done = set[int]()
        for name, params in verdicts(session_id, staying):
            done.update(self._write(name, **params))
        self._after_settling(staying, done, session_id)
        # What goes to other queues goes last: the others may have made room there.
        done |= self._let_leave(session_id, [item for item in expired if item.id in leaving], leaving)
        if dead := [item.id for item in staying if item.verdict is Verdict.DEAD and item.id in done]:
            self.moves.send_dead(dead)
        if marks:
            ended = [item for item in held if item.id in done and item.verdict is not Verdict.BEGIN]
            told = {item.id: END_OF_VERDICT[item.verdict] for item in ended}
            told |= {id_: End.REPLACED for id_ in leaving if leaving[id_] and id_ in done}
            outcomes = {item.id: item.outcome for item in ended if item.outcome is not None}
            returned = {item.id: item.returned for item in ended if item.returned is not None}
            self.ends.tell(marks, told, outcomes=outcomes, returned=returned)
        return done

    def _held(self, session_id: int, settlements: Sequence[Settlement]) -> Sequence[Settlement]:  # noqa: ARG002
        """Lock the messages and leave out lost ones, where the statements do not do so."""
        return settlements

    def _write(self, name: str, **fenced: Any) -> list[int]:
        return first_of(self.rows(name, **fenced))

    def _leaving(self, ids: Sequence[int]) -> dict[int, bool]:
        """Return the expired messages that leave their queue, and whether a later value has replaced each."""
        return dict(self.rows("leaving", ids=list(ids), replaced=BY_LATER_VALUE)) if ids else {}

    def _let_leave(self, session_id: int, expired: Sequence[Settlement], replaced: Mapping[int, bool]) -> set[int]:
        """Send expired messages to their expiry queues, or write that they were replaced; return the ids."""
        gone: set[int] = set()
        if over := [item for item in expired if replaced[item.id]]:
            gone.update(self._write("settle_finished", **fence(session_id, over), outcome=REPLACED))
        if going := [item for item in expired if not replaced[item.id]]:
            how = {"reason": [BY_EXPIRY] * len(going), "counted": [False] * len(going)}
            sent = self._write("settle_dead", **fence(session_id, going), **how)
            self.moves.send_expired(sent)
            gone.update(sent)
        return gone

    def _after_settling(self, settlements: Sequence[Settlement], done: set[int], session_id: int) -> None:
        """Record failed attempts while the rows are there; then remove replaced values."""
        settled = [item for item in settlements if item.id in done]
        if failed := [(item.id, item.counted, item.failure) for item in settled if item.failure]:
            self.messages.record_attempts(session_id, failed)
        if released := [item.id for item in settled if item.verdict is RELEASE or item.verdict is PARK]:
            self.messages.drop_replaced(released)
        if declined := [item.id for item in settled if item.verdict is DECLINE]:
            self.messages.drop_replaced(declined)
            self.declines.note(session_id, declined)

    def mark(self, session_id: int, receipt: Receipt, told_to: str | None) -> None:
        id_, claim = receipt
        self.rows("mark", session=session_id, id=id_, claim=claim, told_to=told_to)

    def hold(self, session_id: int, receipt: Receipt) -> bool:
        id_, claim = receipt
        return bool(self.rows("hold", session=session_id, id=id_, claim=claim))

    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        if held := self._held(session_id, settlements):
            self.ends.after(
                [item.id for item in held if item.told_to is not None],
                End.GIVEN_BACK,
                partial(self._give_back, session_id, held),
            )

    def _give_back(self, session_id: int, held: Sequence[Settlement]) -> list[int]:
        how = {"delay_seconds": [0.0] * len(held), "counted": [False] * len(held)}
        ids = [item.id for item in held]
        self.rows("end_replaced", session=session_id, ids=ids, replaced=BY_LATER_VALUE)
        return self._write("settle_released", **fence(session_id, held), **how)

    def record_attempt(self, failure: Failure, **about: Any) -> None:
        self.rows("record_attempt", **failed_attempt(failure, **about))


def statements(session_id: int, settlements: Sequence[Settlement]) -> Iterator[Statement]:
    """Yield the statements for settlements without failures and dead messages."""
    yield from verdicts(session_id, settlements)
    if ids := [item.id for item in settlements if item.verdict is RELEASE or item.verdict is PARK]:
        # A released message that a later value has replaced is removed.
        yield "remove", {"ids": ids, "outcome": REPLACED, "reason": BY_LATER_VALUE}


def verdicts(session_id: int, settlements: Sequence[Settlement]) -> Iterator[Statement]:
    left = len(settlements)  # most often all have the first of the verdicts
    for verdict, name, how in KINDS:
        if left and (chosen := [item for item in settlements if item.verdict is verdict]):
            left -= len(chosen)
            yield name, fence(session_id, chosen) | how(chosen)


#: Each verdict, the statement that writes it, and the parameters of that.
KINDS: tuple[tuple[Verdict, str, Callable[[Sequence[Settlement]], dict[str, Any]]], ...] = (
    (Verdict.ACCEPT, "settle_finished", lambda _: {"outcome": ACCEPTED}),
    (Verdict.BEGIN, "settle_finished", lambda _: {"outcome": ACCEPTED}),
    (Verdict.FORWARD, "settle_finished", lambda _: {"outcome": FORWARDED}),
    (Verdict.EXPIRE, "settle_finished", lambda _: {"outcome": EXPIRED}),
    (Verdict.CANCEL, "settle_finished", lambda _: {"outcome": CANCELLED}),
    *(
        (
            verdict,
            "settle_released",
            lambda items: {
                "delay_seconds": [float(item.delay_seconds) for item in items],
                "counted": [item.counted for item in items],
            },
        )
        for verdict in (RELEASE, DECLINE)
    ),
    (
        PARK,
        "settle_parked",
        lambda items: {
            "delay_seconds": [float(item.delay_seconds) for item in items],
            "park_key": [stored_key(item.park_key) for item in items],
        },
    ),
    (
        Verdict.DEAD,
        "settle_dead",
        lambda items: {
            "reason": [storable(item.reason, 255) for item in items],
            "counted": [item.counted for item in items],
        },
    ),
)
