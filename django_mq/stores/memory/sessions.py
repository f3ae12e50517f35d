"""Worker sessions: opened, renewed, closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.memory.runner import Runner, locked
from django_mq.stores.memory.session import WorkerSession
from django_mq.stores.records import Instructions, Renewal
from django_mq.stores.values import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.conduct import Conduct
    from django_mq.stores.memory.row import Row
    from django_mq.stores.records import Heartbeat, Receipt, SessionInfo


class Sessions(Runner):
    """Open, renew and close worker sessions."""

    @locked
    def open_session(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        number = next(self.broker.session_numbers)
        now = self._now()
        self.broker.sessions[number] = WorkerSession(number, info, now, later(now, deadline_seconds))
        return number

    @locked
    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        if session_id in self.broker.sessions:
            return None
        now = self._now()
        session = WorkerSession(session_id, info, now, later(now, deadline_seconds))
        session.instructions = info.told
        self.broker.sessions[session_id] = session
        carrying = [row for id_, claim in held if (row := self._given_back(session_id, id_, claim)) is not None]
        for row in carrying:
            self._retake(row, session)
        return frozenset(row.id for row in carrying)

    def _given_back(self, session_id: int, id_: int, claim: int) -> Row | None:
        """Return the row that this claim of a reaped session held, if nothing has become of it since."""
        row = self.broker.rows.get(id_)
        return row if row is not None and row.ended is not None and row.ended[:2] == (session_id, claim) else None

    def _retake(self, row: Row, session: WorkerSession) -> None:
        """Let the session hold the row again, by the same claim, as it did before its deadline."""
        ended, row.ended = row.ended, None
        if ended is None:
            return
        # A suspect's attempt was counted when it was lost; to take the entry counts it again.
        attempts = row.entry.attempts - ended.suspect
        consumer = session.consumer_of(row.queue)
        row.queue.engine.take_again(row.entry, consumer, ended.claim_number, attempts=attempts)
        row.entry.suspect = ended.suspect
        row.session_id = session.number

    @locked
    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        session = self.broker.sessions.get(session_id)
        if session is None:
            return None
        session.heartbeat = heartbeat
        now = self._now()
        session.deadline, session.heartbeat_at = later(now, heartbeat.deadline_seconds), now
        renewed_since = later(now, -heartbeat.deadline_seconds)
        living = [
            number
            for number, other in self.broker.sessions.items()
            if other.deadline >= now and other.heartbeat_at >= renewed_since
        ]
        eldest = session_id == min(living, default=session_id)
        return Renewal(eldest=eldest, instructions=session.instructions)

    @locked
    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        session, now = self.broker.sessions.get(session_id), self._now()
        if session is None or session.deadline < now:
            return False
        session.deadline = later(now, deadline_seconds)
        return True

    @locked
    def instruct(self, session_id: int, *, conduct: Conduct | None = None, credit: int | None = None) -> bool:
        session = self.broker.sessions.get(session_id)
        if session is None:
            return False
        told = session.instructions
        session.instructions = Instructions(
            told.conduct if conduct is None else conduct, told.credit if credit is None else credit or None
        )
        return True

    @locked
    def close_session(self, session_id: int) -> int:
        session = self.broker.sessions.pop(session_id, None)
        if session is None:
            return 0
        held = session.held()
        for row in held:
            row.let_go()
        session.unsubscribe()
        return len(held)

    def _give_back(self, row: Row, *, delivered: bool = True) -> None:
        """Take a held row from its session, uncounted; the session's late verdict is void."""
        if row.entry.owner is not None:
            row.let_go()
            row.queue.engine.release(row.entry, row.entry.owner, delivered=delivered)
