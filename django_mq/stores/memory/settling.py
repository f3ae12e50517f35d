"""Verdicts, each behind the fence of its claim: a late one finds the row in other hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.verdict import Verdict
from django_mq.errors import SessionLost
from django_mq.stores.memory.broker import row_of
from django_mq.stores.memory.claiming import Claiming
from django_mq.stores.memory.dying import Dying
from django_mq.stores.memory.history import Outcome
from django_mq.stores.memory.runner import locked
from django_mq.stores.records import Settlement
from django_mq.stores.values import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.consumer import Consumer
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession
    from django_mq.stores.records import ClaimRequest, Exchange

#: Verdicts over one message that come together: the first of these counts.
ORDER = (Verdict.ACCEPT, Verdict.EXPIRE, Verdict.CANCEL, Verdict.RELEASE, Verdict.DEAD)


class Settling(Claiming, Dying):
    """Settle, and exchange verdicts for messages."""

    @locked
    def exchange(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> Exchange:
        # Nothing can be rolled back, so what fails is asked first: only a lost session does.
        if request is not None and session_id not in self.broker.sessions:
            raise SessionLost
        return super().exchange(session_id, settlements, request)

    @locked
    def settle(self, session_id: int, settlements: Sequence[Settlement]) -> frozenset[int]:
        session = self.broker.sessions.get(session_id)
        in_order = sorted(settlements, key=lambda item: ORDER.index(item.verdict))
        done = set() if session is None else self._settle_all(session, in_order)
        done.update(item.id for item in in_order if item.id not in done and self._settle_late(session_id, item))
        return frozenset(item.id for item in settlements) - done

    @locked
    def give_back(self, session_id: int, settlements: Sequence[Settlement]) -> None:
        session = self.broker.sessions.get(session_id)
        if session is not None:
            self._settle_all(session, [Settlement(item.id, item.claim, Verdict.RELEASE) for item in settlements])

    def _settle_all(self, session: WorkerSession, settlements: Sequence[Settlement]) -> set[int]:
        """Settle what the session holds, then send dead letters on, which changes ids; return the row ids."""
        rows = {item.id: self.broker.rows[item.id] for item in settlements if item.id in self.broker.rows}
        settled = [item for item in settlements if self._settle(session, item)]
        self._move_dead(rows[item.id] for item in settled if item.verdict is Verdict.DEAD)
        return {item.id for item in settled}

    def _settle_late(self, session_id: int, settlement: Settlement) -> bool:
        """Settle what was given back after the session's deadline, if nothing has become of it since."""
        row = self._given_back(session_id, settlement.id, settlement.claim)
        if row is None or row.ended is None:
            return False
        session = self.broker.sessions.get(session_id) or row.ended.session
        self._retake(row, session)
        done = bool(self._settle_all(session, [settlement]))
        if session_id not in self.broker.sessions:
            session.unsubscribe()
        return done

    def _settle(self, session: WorkerSession, settlement: Settlement) -> bool:
        row = self.broker.rows.get(settlement.id)
        if row is None or row.session_id != session.number:
            return False
        consumer = session.consumer_of(row.queue)
        if settlement.verdict is Verdict.RELEASE:
            done = self._released(row, consumer, settlement)
        elif settlement.verdict is Verdict.DEAD:
            done = self._died(row, consumer, settlement)
        else:
            return self._finished(row, consumer, settlement)
        if done:
            self._after(row, settlement, session)
        return done

    def _finished(self, row: Row, consumer: Consumer, settlement: Settlement) -> bool:
        if not row.queue.engine.accept(row.entry, consumer, settlement.claim):
            return False
        if settlement.verdict is Verdict.ACCEPT:
            self.broker.finish(row, Outcome.ACCEPTED)
        elif settlement.verdict is Verdict.CANCEL:
            self.broker.finish(row, Outcome.CANCELLED)
        else:
            self._expire([row])
        return True

    def _released(self, row: Row, consumer: Consumer, settlement: Settlement) -> bool:
        engine = row.queue.engine
        give_back = engine.fail if settlement.counted else engine.release
        delay = settlement.delay_seconds
        due = later(self._now(), delay) if delay > 0 else None
        retry_at = None if due is None else due.timestamp()
        if not give_back(row.entry, consumer, settlement.claim, retry_at=retry_at):
            return False
        row.deliver_at = due or row.deliver_at
        row.suspect = row.suspect and not settlement.counted
        self._back(row)
        return True

    def _died(self, row: Row, consumer: Consumer, settlement: Settlement) -> bool:
        if not row.queue.engine.reject(row.entry, consumer, settlement.claim):
            return False
        row.entry.attempts -= not settlement.counted
        self._bury(row, settlement.reason)
        return True

    def _after(self, row: Row, settlement: Settlement, session: WorkerSession) -> None:
        """Record why the attempt failed."""
        if settlement.failure is not None:
            self.record_attempt(
                settlement.failure,
                queue_name=row.queue.name,
                # A delivery that was not counted is the one after those that were.
                number=row.entry.attempts + (not settlement.counted),
                worker=f"session {session.number}",
                message_id=row.message.message_id,
                correlation_id=row.message.correlation_id,
                type=row.message.type,
            )

    @locked
    def resync(self, session_id: int, held: Sequence[int]) -> int:
        session, known = self.broker.sessions.get(session_id), set(held)
        mine = [] if session is None else [row_of(entry) for entry in session.held()]
        unknown = [row for row in mine if row.id not in known]
        for row in unknown:
            redelivered = row.entry.redelivered
            self._give_back(row)
            # It never reached anybody.
            row.entry.redelivered = redelivered
        return len(unknown)
