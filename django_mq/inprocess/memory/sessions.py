"""Worker sessions: opened, renewed, told, and ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.recall import FreeSlots
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.engine.states import Cause, Fate
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import EndedClaim
from django_mq.inprocess.memory.session import MemorySession
from django_mq.stores.records import WORKER_LOST, Reaped, Renewal, WorkerCommand, later
from django_mq.stores.subjects import sessions as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.inprocess.memory.deletions import Deletions
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.stores.records import Heartbeat, Receipt, SessionInfo


@dataclass(eq=False)
class Sessions(Part, subjects.Sessions):
    deletions: Deletions

    @locked
    def open(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        number = next(self.broker.session_numbers)
        now = self.broker.now()
        self.broker.sessions[number] = MemorySession(number, info, now, later(now, deadline_seconds))
        return number

    @locked
    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        if session_id in self.broker.sessions:
            return None
        now = self.broker.now()
        session = MemorySession(session_id, info, now, later(now, deadline_seconds))
        session.command = info.told
        self.broker.sessions[session_id] = session
        carrying = [
            row for id_, claim in held if (row := self.broker.given_back(session_id, id_, claim)) is not None
        ]
        for row in carrying:
            session.retake(row)
            self.broker.note_end(row, End.RETAKEN)
        return frozenset(row.id for row in carrying)

    @locked
    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        session = self.broker.sessions.get(session_id)
        if session is None:
            return None
        session.heartbeat = heartbeat
        now = self.broker.now()
        session.deadline, session.heartbeat_at = later(now, heartbeat.deadline_seconds), now
        renewed_since = later(now, -heartbeat.deadline_seconds)
        living = [
            number
            for number, other in self.broker.sessions.items()
            if other.deadline >= now and other.heartbeat_at >= renewed_since
        ]
        leader = session_id == min(living, default=session_id)
        return Renewal(leader=leader, command=session.command, stops=frozenset(session.stops))

    @locked
    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        session, now = self.broker.sessions.get(session_id), self.broker.now()
        if session is None or session.deadline < now:
            return False
        session.deadline = later(now, deadline_seconds)
        return True

    @locked
    def send_command(self, session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None) -> bool:
        session = self.broker.sessions.get(session_id)
        if session is None:
            return False
        told = session.command
        session.command = WorkerCommand(
            told.mode if mode is None else mode, told.credit if credit is None else credit or None
        )
        return True

    @locked
    def ask_to_stop(self, ids: Sequence[int]) -> list[int]:
        asked = []
        for session in self.broker.sessions.values():
            mine = [row for row in session.held() if row.id in ids]
            session.stops.update((row.id, row.entry.claim_number) for row in mine)
            asked += [row.id for row in mine]
        return sorted(asked)

    @locked
    def ask_to_stop_begun(self, begun: Sequence[tuple[int, Receipt]]) -> list[int]:
        living = [(session_id, receipt) for session_id, receipt in begun if session_id in self.broker.sessions]
        for session_id, receipt in living:
            self.broker.sessions[session_id].stops.add(receipt)
        return [receipt[0] for _, receipt in living]

    @locked
    def forget_stops(self, session_id: int, receipts: Collection[Receipt]) -> None:
        if session_id in self.broker.sessions:
            self.broker.sessions[session_id].stops.difference_update(receipts)

    @staticmethod
    def _cancel_stopped(session: MemorySession) -> int:
        """Have what the session was asked to stop removed when it is given back; return how many."""
        stopped = [row for row in session.held() if (row.id, row.entry.claim_number) in session.stops]
        for row in stopped:
            row.queue.inner.control.discard(row.entry, Cause.CANCELLED)
        return len(stopped)

    @locked
    def free_slots(self, session_id: int, queues: Sequence[str]) -> dict[str, list[FreeSlots]]:
        now, free = self.broker.now(), dict[str, list[FreeSlots]]()
        for number, session in self.broker.sessions.items():
            told = session.heartbeat
            if number == session_id or told is None or session.deadline < now:
                continue
            slots = max(0, (told.slots or 0) - (told.busy or 0)) if told.busy is not None else 0
            if slots and session.command.mode is WorkerMode.WORK:
                serving = [info for info in told.consumers if info.state != "stopping"]
                for name in {info.queue_name for info in serving}.intersection(queues):
                    selectors = frozenset(info.selector for info in serving if info.queue_name == name)
                    free.setdefault(name, []).append(FreeSlots(slots, selectors))
        return free

    @locked
    def close(self, session_id: int) -> int:
        session = self.broker.sessions.pop(session_id, None)
        if session is None:
            self.broker.lose_runs()
            return 0
        held, cancelled = session.held(), self._cancel_stopped(session)
        for row in held:
            self.broker.note_end(row, End.GIVEN_BACK)
            row.let_go()
            row.released_at = self.broker.now()
        session.unsubscribe()
        self.broker.lose_runs()
        if self.broker.note_departure(session):
            self.deletions.delete_unused()
        return len(held) - cancelled

    def hold_liveness_lock(self, session_id: int, *, deadline_seconds: float) -> bool:  # noqa: ARG002 - none is needed
        return True

    def has_hung_up(self) -> bool:
        return False

    def shorten_deadlines(self) -> int:
        return 0  # no connection ends before its process

    @locked
    def reap(self, *, spare: int = 0) -> list[Reaped]:
        now = self.broker.now()
        sessions = [session for session in self.broker.sessions.values() if session.number != spare]
        reaped = [self._reap(session) for session in sessions if session.deadline < now]
        self.broker.lose_runs()
        self.dead_letters.send_dead(row for _, dead in reaped for row in dead)
        gone = [session for session in sessions if session.deadline < now]
        left = [self.broker.note_departure(session) for session in gone]
        if any(left):
            self.deletions.delete_unused()
        return [each for each, _ in reaped]

    def _reap(self, session: MemorySession) -> tuple[Reaped, list[LiveMessage]]:
        """Remove a session and give its messages back. Return a report, and the new dead letters."""
        cancelled = self._cancel_stopped(session)
        for row in session.held():
            if row.entry.suspect:
                self.broker.record_failure(row, WORKER_LOST, session.info.name)
            self.broker.note_end(row, End.LOST)
            row.ended = EndedClaim(session.number, row.entry.claim_number, row.entry.suspect, session)
            row.let_go()
            row.released_at = self.broker.now()
        lost = session.lose(self.broker.now().timestamp())
        dead = [row for row, fate in lost if fate is Fate.DEAD]
        for row in dead:
            self.broker.note_end(row, End.DEAD)
        del self.broker.sessions[session.number]
        released = len(lost) - len(dead) - cancelled
        return Reaped(session_id=session.number, name=session.info.name, released=released, dead=len(dead)), dead
