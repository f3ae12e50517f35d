"""Settlements, each fenced by its claim token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.ends import END_OF_VERDICT, End, RunOutcome
from django_mq.engine.decisions.verdict import BY_EXPIRY, Verdict
from django_mq.engine.states import DEAD, Cause
from django_mq.inprocess.consumers.consumer import holder_of
from django_mq.inprocess.memory.part import Part, locked
from django_mq.stores.records import PARK_KEY_LENGTH, Settlement, later, storable
from django_mq.stores.subjects import claims as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.memory.broker import Transaction
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.inprocess.memory.session import MemorySession
    from django_mq.inprocess.work import UnitOfWork
    from django_mq.stores.records import Failure, Receipt

#: Of several verdicts over one message, the first one in this order counts.
ORDER = (
    Verdict.ACCEPT,
    Verdict.BEGIN,
    Verdict.FORWARD,
    Verdict.EXPIRE,
    Verdict.CANCEL,
    Verdict.RELEASE,
    Verdict.DECLINE,
    Verdict.PARK,
    Verdict.DEAD,
)
#: After these verdicts the message stays, and no session holds it.
LEAVING = (Verdict.RELEASE, Verdict.DECLINE, Verdict.PARK, Verdict.DEAD)
#: After these verdicts the message is gone: its end is noted when it leaves the queue, which knows why.
GOING = (Verdict.ACCEPT, Verdict.BEGIN, Verdict.FORWARD, Verdict.EXPIRE, Verdict.CANCEL)


@dataclass(eq=False)
class Settlements(Part, subjects.Settlements):
    transaction: Transaction

    @locked
    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        session = self.broker.sessions.get(session_id)
        ending = [item for item in settlements if item.verdict is Verdict.END]
        # What goes to an expiry queue goes last, in the order of the ids: the others may have made room there.
        others = [item for item in settlements if item.verdict is not Verdict.END] if ending else settlements
        in_order = sorted(others, key=lambda item: (self._leaves(item), ORDER.index(item.verdict), item.id))
        done = set() if session is None else self._settle_all(session, in_order)
        done.update(item.id for item in in_order if item.id not in done and self._settle_late(session_id, item))
        done.update(item.id for item in ending if self._end_run(session_id, item))
        return frozenset(item.id for item in settlements) - done

    def _leaves(self, settlement: Settlement) -> bool:
        row = self.broker.rows.get(settlement.id)
        return settlement.verdict is Verdict.EXPIRE and row is not None and row.leaves_expired

    @locked
    def begin_settle(self, session_id: int, receipts: Sequence[Receipt]) -> frozenset[int]:
        session = self.broker.sessions.get(session_id)
        found = [] if session is None else [self._held(session, id_, claim) for id_, claim in receipts]
        held = [each for each in found if each is not None]
        begun = {row.id for row, owner in held if row.queue.inner.begin_settle(row.entry, owner)}
        return frozenset(id_ for id_, _ in receipts) - begun

    @locked
    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        session = self.broker.sessions.get(session_id)
        if session is not None:
            for row, _ in filter(None, [self._held(session, item.id, item.claim) for item in settlements]):
                row.give_back(self.broker.now())
                self.broker.note_end(row, End.GIVEN_BACK)

    @locked
    def mark(self, session_id: int, receipt: Receipt, told_to: str | None) -> None:
        session = self.broker.sessions.get(session_id)
        if session is not None and (held := self._held(session, *receipt)):
            held[0].message = replace(held[0].message, told_to=told_to)

    def record_attempt(self, failure: Failure, **about: Any) -> None:
        with self.broker.locked():
            self.broker.record_attempt(failure, **about)

    def _settle_all(self, session: MemorySession, settlements: Sequence[Settlement]) -> set[int]:
        """Settle what the session holds, now or with the commit of the transaction; return the row ids."""
        unit = self.transaction.unit
        if unit is None:
            return self._settle_now(session, settlements)
        return {item.id for item in settlements if self._settle_with(unit, session, item)}

    def _end_run(self, session_id: int, settlement: Settlement) -> bool:
        return self.broker.end_run(session_id, settlement.id, settlement.outcome or RunOutcome.SUCCEEDED)

    def _settle_with(self, unit: UnitOfWork, session: MemorySession, settlement: Settlement) -> bool:
        held = self._held(session, settlement.id, settlement.claim)
        if held is None:
            session.saw(settlement.id)
            return False
        row, owner = held
        settle = partial(self._settle_now, session, [settlement])
        return unit.settle(row.queue.inner, row.entry, owner, settle)

    def _settle_now(self, session: MemorySession, settlements: Sequence[Settlement]) -> set[int]:
        """Settle what the session holds, then send dead letters on; return the row ids before that."""
        rows = {item.id: self.broker.rows[item.id] for item in settlements if item.id in self.broker.rows}
        settled = [item for item in settlements if self._settle(session, item)]
        ended = [rows[item.id] for item in settled if item.verdict is Verdict.EXPIRE]
        self.dead_letters.send_expired(row for row in ended if row.entry.state is DEAD)
        self.dead_letters.send_dead(rows[item.id] for item in settled if item.verdict is Verdict.DEAD)
        return {item.id for item in settled}

    def _settle_late(self, session_id: int, settlement: Settlement) -> bool:
        """Settle a message that was given back after the session's deadline and has not changed since."""
        row = self.broker.given_back(session_id, settlement.id, settlement.claim)
        if row is None or row.ended is None:
            return False
        session = self.broker.sessions.get(session_id) or row.ended.session
        session.retake(row)
        self.broker.note_end(row, End.RETAKEN)
        done = bool(self._settle_all(session, [settlement]))
        if session_id not in self.broker.sessions:
            session.unsubscribe()
        return done

    def _held(self, session: MemorySession, id_: int, claim: int) -> tuple[LiveMessage, Consumer] | None:
        """Return the row and its consumer, if the session holds the row by this claim."""
        row = self.broker.rows.get(id_)
        if row is None or (row.session_id, row.entry.claim_number) != (session.number, claim):
            return None
        holder = holder_of(row.entry)
        return None if holder is None else (row, holder)

    def _settle(self, session: MemorySession, settlement: Settlement) -> bool:
        held = self._held(session, settlement.id, settlement.claim)
        if held is None:
            session.saw(settlement.id)
            return False
        row, owner = held
        if settlement.marks:
            row.message = replace(row.message, told_to=settlement.told_to)
        if settlement.verdict in LEAVING:
            if settlement.failure is not None:
                self.broker.record_failure(row, settlement.failure, session.info.name)
            row.let_go()
        if settlement.verdict not in GOING:
            self.broker.note_end(row, END_OF_VERDICT[settlement.verdict])
        if settlement.verdict is Verdict.BEGIN:
            self.broker.begin_run(row)
        self._end(row, settlement, owner)
        if settlement.outcome is not None or settlement.returned is not None:
            self.broker.note_outcome(settlement)
        return True

    def _end(self, row: LiveMessage, settlement: Settlement, consumer: Consumer) -> None:
        inner, entry, now, counted = row.queue.inner, row.entry, self.broker.now(), settlement.counted
        match settlement.verdict:
            case Verdict.ACCEPT | Verdict.BEGIN | Verdict.FORWARD:
                row.is_forwarded = settlement.verdict is Verdict.FORWARD
                inner.accept(entry, consumer)
            case Verdict.DECLINE:
                row.declined_at = row.released_at = now
                inner.decline(entry, consumer)
            case Verdict.PARK:
                until = later(now, settlement.delay_seconds).timestamp() if settlement.delay_seconds > 0 else None
                inner.park(entry, consumer, key=storable(settlement.park_key, PARK_KEY_LENGTH), until=until)
            case Verdict.CANCEL:
                inner.control.remove(entry, Cause.CANCELLED)
            case Verdict.EXPIRE:
                if row.leaves_expired:
                    self.broker.note_end(row, End.EXPIRED)
                    row.let_go()
                    at = now.timestamp()
                    inner.reject(entry, consumer, now=at, counted=False, reason=BY_EXPIRY, stays=True)
                else:
                    inner.report_expired(entry, consumer, now=now.timestamp())
            case Verdict.DEAD:
                reason = storable(settlement.reason, 255)
                inner.reject(entry, consumer, now=now.timestamp(), counted=counted, reason=reason, stays=True)
            case Verdict.RELEASE:
                due = later(now, settlement.delay_seconds) if settlement.delay_seconds > 0 else None
                row.deliver_at, row.released_at = due or row.deliver_at, now
                entry.suspect = entry.suspect and not counted
                if due is not None and not counted:
                    row.count_release()
                retry_at = None if due is None else due.timestamp()
                inner.release(entry, consumer, retry_at=retry_at, counted=counted)
