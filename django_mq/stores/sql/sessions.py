"""Worker sessions: opened, renewed, closed, and reaped."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq import conf
from django_mq.engine.decisions.recall import FreeSlots
from django_mq.engine.decisions.verdict import AtOnce, Ending, Verdict, verdict
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.stores.records import WORKER_LOST, ConsumerInfo, Reaped, Renewal, WorkerCommand, storable
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.sql.messages import CANCELLED
from django_mq.stores.subjects import sessions as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.stores.records import Heartbeat, Receipt, SessionInfo
    from django_mq.stores.sql.deletions import Deletions
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.moves import Moves
    from django_mq.stores.sql.queues import Queues
    from django_mq.stores.sql.runs import BegunTasks
    from django_mq.stores.sql.settlements import Leases


logger = logging.getLogger("django_mq.stores")


class Stop(NamedTuple):
    """A claim of a message by a session: what the session is asked to stop, or holds."""

    session_id: int
    id: int
    claim: int


#: The fields of a heartbeat that are parameters as they are.
RENEWED = ("deadline_seconds", "held", "credit", "busy", "slots", "memory_bytes", "look")


@dataclass(eq=False)
class Sessions(Part, subjects.Sessions):
    messages: Messages
    moves: Moves
    leases: Leases
    runs: BegunTasks
    deletions: Deletions
    queues: Queues
    #: Seconds after the start of the database in which no session is reaped, because none could be renewed before.
    #: None is one deadline.
    grace_seconds: float | None = field(init=False, default=None)
    #: The session and its consumers, as last written.
    _shown: tuple[int, tuple[ConsumerInfo, ...]] | None = field(init=False, default=None)
    #: The last mode that the session was told, and the last word that this version does not know.
    _mode: WorkerMode = field(init=False, default=WorkerMode.WORK)
    _unknown_word: str | None = field(init=False, default=None)

    def open(self, info: SessionInfo, *, deadline_seconds: float) -> int:
        while True:
            # Not a sequence of the database, which begins anew when tables are flushed: two workers would share a
            # session. Microseconds stay below 2 to the power of 53, which JSON carries.
            session_id = time.time_ns() // 1000
            if self._insert(session_id, info, deadline_seconds):
                return session_id

    def revive(
        self, session_id: int, info: SessionInfo, held: Sequence[Receipt], *, deadline_seconds: float
    ) -> frozenset[int] | None:
        with self.database.transaction():
            if not self._insert(session_id, info, deadline_seconds):
                return None
            self._shown = None
            return frozenset(self.leases.retake(session_id, held)) if held else frozenset()

    def _insert(self, session_id: int, info: SessionInfo, deadline_seconds: float) -> bool:
        given = asdict(info) | {
            "session": session_id,
            "name": storable(info.name, 255),
            "host": storable(info.host, 255),
            "queues": json.dumps(info.queues),
            "deadline_seconds": deadline_seconds,
            "conduct": info.told.mode.value,
            "given_credit": info.told.credit,
        }
        del given["told"]
        return bool(self.database.insert("open_session", **given))

    def renew(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        shows = (session_id, heartbeat.consumers)
        if shows == self._shown:
            return self._renewal(session_id, heartbeat)
        with self.database.transaction():
            renewal = self._renewal(session_id, heartbeat)
            if renewal is not None:
                self.rows("drop_consumers", sessions=[session_id])
                for consumer in heartbeat.consumers:
                    shown = asdict(consumer) | {"handler": storable(consumer.handler, 255)}
                    self.rows("add_consumer", session=session_id, **shown)
        self._shown = None if renewal is None else shows
        return renewal

    def prolong(self, session_id: int, *, deadline_seconds: float) -> bool:
        return bool(self.rows("prolong", session=session_id, deadline_seconds=deadline_seconds))

    def _renewal(self, session_id: int, heartbeat: Heartbeat) -> Renewal | None:
        given = {name: getattr(heartbeat, name) for name in RENEWED} | {"queues": json.dumps(heartbeat.queues)}
        shown = [each if each.begun else each[:4] for each in heartbeat.running]  # four as in earlier releases
        given["running"] = json.dumps(shown) if shown else None
        renewed = self.rows("renew", session=session_id, **given)
        return self._answer(session_id, heartbeat, renewed[0]) if renewed else None

    def _answer(self, session_id: int, heartbeat: Heartbeat, row: tuple[Any, ...]) -> Renewal:
        """Return the answer in a renewal's row; another statement asks for the leader."""
        _, mode, credit, has_stops = row
        leader = not self.rows("older", session=session_id, silent_seconds=-heartbeat.deadline_seconds)
        stops = self._receipts(session_id, has_stops)
        return Renewal(leader=leader, command=self._command(mode, credit), stops=stops)

    def _receipts(self, session_id: int, has_stops: object) -> frozenset[Receipt]:
        """Return the claims that a session is asked to stop, if it has any."""
        return frozenset((each.id, each.claim) for each in self._stops([session_id])) if has_stops else frozenset()

    def _stops(self, sessions: Sequence[int]) -> frozenset[Stop]:
        """Return what sessions are asked to stop."""
        return frozenset(Stop(*row) for row in self.rows("stops", sessions=list(sessions)))

    def ask_to_stop(self, ids: Sequence[int]) -> list[int]:
        with self.database.transaction():
            found = sorted(Stop(*row) for row in self.rows("holders", ids=list(ids)))
            for session_id, id_, claim in found:
                self.rows("add_stop", session=session_id, message=id_, claim=claim)
        return [each.id for each in found]

    def ask_to_stop_begun(self, begun: Sequence[tuple[int, Receipt]]) -> list[int]:
        with self.database.transaction():
            living = set(first_of(self.rows("living", sessions=sorted({session_id for session_id, _ in begun}))))
            found = [Stop(session_id, *receipt) for session_id, receipt in begun if session_id in living]
            for session_id, id_, claim in found:
                self.rows("add_stop", session=session_id, message=id_, claim=claim)
        return [each.id for each in found]

    def forget_stops(self, session_id: int, receipts: Collection[Receipt]) -> None:
        self.rows("forget_stops", session=session_id, ids=[id_ for id_, _ in receipts])

    def _cancel_stopped(self, stops: Collection[Stop], released: Sequence[Stop]) -> set[int]:
        """Cancel what ended sessions have given back and were asked to stop; return the ids."""
        stopped = [each.id for each in released if each in stops]
        return set(self.messages.remove(stopped, CANCELLED)) if stopped else set()

    def _command(self, word: str, credit: int | None) -> WorkerCommand:
        """Return the operator's command; ignore a word of a newer version, and log it once."""
        if word in set(WorkerMode):
            self._mode = WorkerMode(word)
        elif word != self._unknown_word:
            self._unknown_word = word
            logger.warning("The version of this worker does not know the command %r, and ignores it", word)
        return WorkerCommand(self._mode, credit)

    def send_command(self, session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None) -> bool:
        word = None if mode is None else mode.value
        return bool(self.rows("send_command", session=session_id, conduct=word, credit=credit))

    def free_slots(self, session_id: int, queues: Sequence[str]) -> dict[str, list[FreeSlots]]:
        found: defaultdict[str, list[FreeSlots]] = defaultdict(list)
        rows = self.rows("free_slots", session=session_id, queues=list(queues))
        for (name, _, slots), some in groupby(sorted(rows), key=itemgetter(0, 1, 2)):
            found[name].append(FreeSlots(slots, frozenset(row[3] for row in some)))
        return found

    def close(self, session_id: int) -> int:
        with self.database.transaction():
            stops = self._stops([session_id])
            held = [Stop(*row) for row in self.rows("holders", ids=[each.id for each in stops])] if stops else []
            released = self.leases.release(session_id)
            released -= len(self._cancel_stopped(stops, held))
            was_last = self.drop([session_id])
        if was_last:
            self.deletions.delete_unused()
        return released

    def drop(self, ids: list[int]) -> bool:
        """Delete the rows of sessions, of their consumers and of what they own.

        Returns whether a queue may be unused now that is deleted then.
        """
        was_last = self.queues.note_departure(ids)
        self.rows("drop_consumers", sessions=ids)
        self.rows("drop_declined_by", sessions=ids)
        self.rows("drop_stops", sessions=ids)
        lost = first_of(self.rows("lost_owners"))
        self.rows("drop_ownerships", sessions=[*ids, *lost])
        self._lose_runs(ids)
        self.rows("drop_sessions", sessions=ids)
        return was_last

    def _lose_runs(self, ids: list[int]) -> None:
        """End the runs of sessions that end now, and of those that are gone."""
        if begun := self.rows("begun_of_sessions", sessions=ids):
            self.runs.lose(begun)

    # Sessions of workers that have died.

    def hold_liveness_lock(self, session_id: int, *, deadline_seconds: float) -> bool:  # noqa: ARG002 - none is needed
        return True

    def has_hung_up(self) -> bool:
        return False

    def shorten_deadlines(self) -> int:
        return 0  # no other connection notices that one has ended

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        was_last = False
        with self.database.transaction():
            expired = self.rows("lock_expired_sessions", spare=spare, **self.grace())
            sessions = first_of(expired)
            released = self.leases.release_held_by_expired(sessions)
            given_back = [Stop(row[0], row[1], row[5]) for row in released]
            holders = sorted({each.session_id for each in given_back})  # also sessions that exist no more
            stopped = self._cancel_stopped(self._stops(holders), given_back) if holders else set()
            released = [row for row in released if row[1] not in stopped]
            suspects = [row for row in released if row[2]]
            for session in sorted({row[0] for row in suspects}):
                lost = [(row[1], True, WORKER_LOST) for row in suspects if row[0] == session]
                self.messages.record_attempts(session, lost)
            replaced = set(self.messages.drop_replaced([row[1] for row in released]))
            decided = {row[1]: verdict(Ending.FAILED, row[3], AtOnce(row[4])).verdict for row in suspects}
            dead = {id_ for id_, what in decided.items() if what is Verdict.DEAD} - replaced
            if buried := sorted(dead):
                self.messages.bury(buried, "worker lost")
                self.moves.send_dead(buried)
            if sessions:
                was_last = self.drop(sessions)
            else:
                self._lose_runs([])
        if was_last:
            self.deletions.delete_unused()
        held = {id_: {row[1] for row in released if row[0] == id_} for id_ in sessions}
        return [Reaped(id_, name, len(held[id_] - dead), len(held[id_] & dead)) for id_, name in expired]

    def grace(self) -> dict[str, Any]:
        """Return the parameters that say if the database has been running for long enough."""
        seconds = self.grace_seconds
        return {"grace_seconds": conf.load().SESSION_SECONDS if seconds is None else seconds}
