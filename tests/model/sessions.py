"""A model of worker sessions: claim, settle, renew, reap, revive, with crashes, stops and answers that are lost.

What a process decides, the model asks of the functions that the package uses: the table of transitions and the
rules of ``engine/decisions/session.py``, ``verdict``, ``fitting``, ``order_of``. What a database does in one
statement is one step here, written beside the SQL that it stands for. A statement and its answer are two steps.

A process has two threads: the driver claims, and the heartbeat renews and settles. Each has one statement under
way at a time. Only one of them revives, under the lock of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions import session as rules
from django_mq.engine.decisions.claim import fitting, order_of
from django_mq.engine.decisions.session import Consequence, SessionEvent, SessionRecord, SessionState
from django_mq.engine.decisions.verdict import ACCEPT, RELEASE, AtOnce, Ending, Verdict, verdict
from django_mq.engine.states import CLAIMED, DEAD, GONE, MOVES, READY, State
from tests.model.search import Broken

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The clock of a process: a lease that was renewed at RECENT is certain, one that was renewed LONG_AGO is not.
NOW, DEADLINE, RECENT, LONG_AGO = 1.0, 2.0, 0.0, float("-inf")
NO_SESSION = -1
#: The steps that can be the first ones for which it matters that a handler has ended.
ENDING = frozenset({"begin:", "settle-and-claim", "flush", "close"})


class Row(NamedTuple):
    """A message in the database. The last is for the promises only: no statement reads it."""

    state: State = READY
    owner: int = NO_SESSION
    #: The claim token, 0 for none; ``counted`` is its sign: whether the lost claim counted an attempt.
    token: int = 0
    counted: bool = False
    suspect: bool = False
    attempts: int = 0
    #: How often a handler began it, or it was claimed alone as a suspect.
    given: int = 0


class Held(NamedTuple):
    """A claimed message, as the process knows it."""

    message: int
    token: int
    attempts: int
    suspect: bool


class Settled(NamedTuple):
    message: int
    token: int
    verdict: Verdict
    counted: bool = False


class Statement(NamedTuple):
    """A statement under way, or its answer. ``revivals``: of the session when it began."""

    kind: str
    revivals: int = 0
    batch: tuple[Settled, ...] = ()
    credit: int = 0
    #: The ready messages that the statement sees, whenever it commits.
    seen: frozenset[int] = frozenset()
    claimed: tuple[Held, ...] = ()
    void: tuple[Settled, ...] = ()
    #: Whether a deadline has passed since the statement began.
    aged: bool = False


class Reviving(NamedTuple):
    """A revival that the database has answered, and the process has not read yet."""

    held: frozenset[tuple[int, int]]
    kept: frozenset[int] | None
    was_unanswered: bool
    #: Of the heartbeat's: the renewal to confirm after it, None for the driver's.
    renewal: Statement | None


class Process(NamedTuple):
    """One worker, with its session. What can still happen to it counts down."""

    alive: bool = True
    stops: int = 1
    crashes: int = 1
    losses: int = 1
    session: SessionRecord = SessionRecord()
    #: What it holds: prefetched, with a handler, or settled and not yet known to be written.
    held: tuple[Held, ...] = ()
    prefetched: tuple[Held, ...] = ()
    running: tuple[Held, ...] = ()
    pending: tuple[Settled, ...] = ()
    #: How often it has to give back what a claim without an answer may have taken.
    resyncs: int = 0
    driver: Statement | None = None
    heartbeat: Statement | None = None
    reviving: Reviving | None = None


class World(NamedTuple):
    """The whole system at one moment."""

    rows: tuple[Row, ...]
    #: Whether each session has a row.
    sessions: tuple[bool, ...]
    #: Statements whose connection has broken, and which the server may still run.
    orphans: tuple[Statement | None, ...]
    processes: tuple[Process, ...]


@cache
def after(record: SessionRecord, event: SessionEvent) -> tuple[SessionRecord, frozenset[Consequence]]:
    """Return what ``SharedState.on`` makes of an event."""
    return rules.after(record.at(NOW, DEADLINE), event)


@dataclass(frozen=True)
class Sessions:
    """The model, with its bounds."""

    messages: int = 3
    credit: int = 2
    slots: int = 1
    max_attempts: int = 2
    #: How often a session gives back what a claim without an answer may have taken.
    resyncs: int = 2
    #: Whether other things happen between a statement of the heartbeat and its answer.
    apart: bool = True
    #: Whether a process can also stand still unnoticed.
    pauses: bool = False
    #: What can happen to each process.
    stops: int = 1
    crashes: int = 1
    losses: int = 1
    #: Whether handlers can fail, workers end in order, and the queue has rules.
    failing: bool = True
    closing: bool = True
    constrained: bool = False
    #: Whether a server that has lost the connection of a heartbeat shortens the deadline.
    shortened: bool = False

    def start(self) -> World:
        opened = replace(after(SessionRecord(), SessionEvent.OPENED)[0], id=1, confirmed_at=RECENT)
        process = Process(stops=self.stops, crashes=self.crashes, losses=self.losses, session=opened)
        return World((Row(),) * self.messages, (True, True), (None, None), (process, process))

    def canonical(self, world: World) -> World:
        """Name the two processes alike, however they changed places."""
        first, second = world.processes
        if hash(first) <= hash(second):
            return world
        rows = tuple(row if row.owner == NO_SESSION else row._replace(owner=1 - row.owner) for row in world.rows)
        return World(rows, world.sessions[::-1], world.orphans[::-1], (second, first))

    def mirrored(self, label: str) -> str:
        return label if label.startswith("server") else f"{1 - int(label[0])}{label[1:]}"

    # What can happen.

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        for mine, process in enumerate(world.processes):
            if process.alive and process.session.state is not SessionState.CLOSED:
                for label, next_ in self._process(world, mine, process):
                    yield f"{mine} {label}", next_
            yield from self._server(world, mine, process)

    def _server(self, world: World, mine: int, process: Process) -> Iterator[tuple[str, World]]:
        """What other workers do to a session, and a server to a broken connection."""
        if world.sessions[mine] and self.shortened and process.stops:
            cut = process._replace(stops=process.stops - 1)
            yield f"{mine} is reaped early", _set(self._reap(world, mine), mine, cut)
        if not world.sessions[mine] and any(_is_claimed(row, mine) for row in world.rows):
            yield f"{mine} is reaped again", self._reap(world, mine)
        orphan = world.orphans[mine]
        if orphan is not None:
            rest = world._replace(orphans=_at(world.orphans, mine, None))
            yield f"{mine} orphan commits", self._commit(rest, mine, orphan)[0]
            yield f"{mine} orphan ends", rest

    def _process(self, world: World, mine: int, process: Process) -> Iterator[tuple[str, World]]:
        # What others do between a crash, or a stop, and the reaping could as well come before both.
        if process.crashes:
            yield "crashes and is reaped", self._crash(world, mine, process)
        if process.stops:
            stopped = _aged(process)._replace(stops=process.stops - 1)
            if world.sessions[mine]:
                yield "stops and is reaped", _set(self._reap(world, mine), mine, stopped)
            if self.pauses:
                yield "stops", _set(world, mine, stopped)
        for ended in self._ended(process):
            # A handler ends when that matters first.
            steps = (*self._handlers(world, mine, ended), *self._driver(world, mine, ended))
            for label, next_ in (*steps, *self._heartbeat(world, mine, ended)):
                if ended is process or label.split()[0] in ENDING:
                    yield label, next_
        if process.reviving is not None:
            yield from self._answer_revival(world, mine, process, process.reviving)

    def _crash(self, world: World, mine: int, process: Process) -> World:
        sent = process.driver if process.driver is not None and process.driver.kind == "sent" else None
        orphans = _at(world.orphans, mine, world.orphans[mine] or sent)
        gone = Process(alive=False, stops=0, crashes=0, losses=0)
        return _set(self._reap(world._replace(orphans=orphans), mine), mine, gone)

    def _ended(self, process: Process) -> Iterator[Process]:
        """Yield the process as it is, and with a handler that has ended."""
        yield process
        for item in process.running:
            rest = tuple(other for other in process.running if other != item)
            for ending in (Ending.RETURNED, Ending.FAILED) if self.failing else (Ending.RETURNED,):
                decision = verdict(ending, item.attempts + 1, AtOnce(self.max_attempts))
                settled = Settled(item.message, item.token, decision.verdict, decision.counted)
                yield process._replace(running=rest, pending=(*process.pending, settled))

    def _handlers(self, world: World, mine: int, process: Process) -> Iterator[tuple[str, World]]:
        if process.session.may_begin(NOW, DEADLINE) and len(process.running) < self.slots:
            for item in process.prefetched[:1]:
                row = world.rows[item.message]
                if (row.state, row.owner, row.token) != (CLAIMED, mine, item.token):
                    raise Broken(f"session {mine} begins message {item.message}, which is not its own any more")
                begun = process._replace(prefetched=process.prefetched[1:], running=_with(process.running, item))
                given = _row(
                    world, item.message, row._replace(given=min(row.given + (not item.suspect), self.max_attempts))
                )
                yield f"begin: {item.message}", _set(given, mine, begun)

    # The driver: ``Session.settle_and_claim``, and what the worker's loop does with a session that is lost.

    def _driver(self, world: World, mine: int, process: Process) -> Iterator[tuple[str, World]]:
        session, statement = process.session, process.driver
        if statement is not None:
            yield from self._answer_driver(world, mine, process, statement)
            return
        if process.resyncs and (not session.retired or session.state is not SessionState.LOST):
            # The second time, the server has ended a statement of the broken connection.
            is_first = process.resyncs == self.resyncs
            if (is_first or world.orphans[mine] is None) and session.id is not None:
                yield "resync", self._resync(world, mine, process)
        if session.state is SessionState.LOST and not session.retired:
            back = tuple(Settled(item.message, item.token, RELEASE) for item in process.prefetched)
            retired = process._replace(
                session=after(session, SessionEvent.RETIRED)[0],
                prefetched=(),
                pending=(*process.pending, *back),
            )
            yield "retire", _set(world, mine, retired)
        idle = process.heartbeat is None and process.reviving is None
        if idle and rules.is_over(session, process.held):
            yield "close", self._close(world, mine, process)
        if session.retired or session.at(NOW, DEADLINE).state not in (SessionState.OPEN, SessionState.UNCERTAIN):
            return
        if idle and self.closing and not process.running:
            yield "close", self._close(world, mine, process)
        credit = self.credit - len(process.held)
        ready = frozenset(number for number, row in enumerate(world.rows) if row.state is READY)
        if ((credit > 0 and ready) or process.pending) and process.resyncs < self.resyncs:
            kind = "sent" if world.sessions[mine] else "lost"
            sent = Statement(kind, session.revivals, process.pending, max(credit, 0), ready)
            yield "settle-and-claim", _set(world, mine, process._replace(driver=sent, pending=()))

    def _answer_driver(
        self, world: World, mine: int, process: Process, statement: Statement
    ) -> Iterator[tuple[str, World]]:
        kept = process._replace(driver=None, pending=(*statement.batch, *process.pending))
        if process.losses:
            lost = kept._replace(losses=process.losses - 1, resyncs=self.resyncs)
            if statement.kind == "sent":
                left = world._replace(orphans=_at(world.orphans, mine, statement))
                yield "claim breaks off", _set(left, mine, lost)
            elif statement.kind == "done":
                yield "claim gets no answer", _set(world, mine, lost)
        if statement.kind == "sent":
            committed, claimed, void = self._commit(world, mine, statement)
            done = process._replace(
                driver=statement._replace(kind="done", claimed=claimed, void=void, seen=frozenset())
            )
            yield "claim commits", _set(committed, mine, done)
        elif process.reviving is None:  # else it waits for the lock
            if statement.kind == "lost":
                yield from self._revive(world, mine, kept, statement.revivals, None)
                return
            answered = _written(process._replace(driver=None), statement)
            if process.session.may_hold(statement.revivals):
                held = tuple(sorted({*answered.held, *statement.claimed}))
                prefetched = tuple(sorted({*answered.prefetched, *statement.claimed}))
                yield "claim answered", _set(world, mine, answered._replace(held=held, prefetched=prefetched))
            else:
                missed = answered._replace(resyncs=self.resyncs) if statement.claimed else answered
                yield "claim answered in vain", _set(world, mine, missed)

    # The heartbeat: ``SessionRow.renew``, ``SettlementWriter.flush``, and the revival of either thread.

    def _heartbeat(self, world: World, mine: int, process: Process) -> Iterator[tuple[str, World]]:
        session, statement = process.session, process.heartbeat
        if statement is not None:
            yield from self._answer_heartbeat(world, mine, process, statement)
            return
        if session.id is None:
            return
        lives, lost = world.sessions[mine], session.state is SessionState.LOST
        # A renewal that changes nothing is no step.
        useful = not lost and not (lives and session.may_begin(NOW, DEADLINE))
        if useful and process.reviving is None and not rules.is_over(session, process.held):
            renewal = Statement("renewed" if lives else "missed", session.revivals)
            yield from self._sent(world, mine, process, "renew", renewal)
        # While the driver has no statement under way, its own would do the same.
        if process.pending and (process.driver is not None or session.retired or session.is_lost):
            settled, void = self._settle(world, mine, process.pending)
            flushed = Statement("flushed", session.revivals, process.pending, void=void)
            yield from self._sent(settled, mine, process._replace(pending=()), "flush", flushed)

    def _sent(
        self, world: World, mine: int, process: Process, label: str, statement: Statement
    ) -> Iterator[tuple[str, World]]:
        """What follows from a statement of the heartbeat: it is under way, or its answer comes at once."""
        if self.apart:
            yield label, _set(world, mine, process._replace(heartbeat=statement))
        else:
            yield from self._answer_heartbeat(world, mine, process, statement)

    def _answer_heartbeat(
        self, world: World, mine: int, process: Process, statement: Statement
    ) -> Iterator[tuple[str, World]]:
        free = process._replace(heartbeat=None)
        if statement.kind == "flushed":
            if process.reviving is None or not statement.void:
                yield "flush answered", _set(world, mine, _written(free, statement))
            if process.losses:
                back = free._replace(pending=(*statement.batch, *process.pending), losses=process.losses - 1)
                yield "flush gets no answer", _set(world, mine, back)
            return
        if process.losses:
            yield "renewal gets no answer", _set(world, mine, free._replace(losses=process.losses - 1))
        if process.reviving is not None:
            return  # it waits for the lock
        if statement.kind == "renewed":
            session, consequences = _confirmed(free.session, statement)
            free = free._replace(session=session)
            if Consequence.REVIVE not in consequences:
                yield "renewal answered", _set(world, mine, free)
                return
        yield from self._revive(world, mine, free, statement.revivals, statement)

    def _revive(
        self, world: World, mine: int, process: Process, revivals: int, renewal: Statement | None
    ) -> Iterator[tuple[str, World]]:
        session = process.session
        if not session.was_missed_at(revivals):
            if renewal is not None and not session.is_lost:
                process = process._replace(session=_confirmed(session, renewal)[0])
            yield "revived by the other thread", _set(world, mine, process)
            return
        was_unanswered = session.at(NOW, DEADLINE).state is SessionState.MISSING
        missing = process._replace(session=after(session, SessionEvent.MISSED)[0])
        if process.losses:
            yield "revival is not sent", _set(world, mine, missing._replace(losses=process.losses - 1))
        held = frozenset(item[:2] for item in process.held)
        kept = None
        if not world.sessions[mine]:
            world, kept = self._retake(_session(world, mine, True), mine, held)
        asked = Reviving(held, kept, was_unanswered, renewal)
        yield "revive", _set(world, mine, missing._replace(reviving=asked))

    def _answer_revival(
        self, world: World, mine: int, process: Process, asked: Reviving
    ) -> Iterator[tuple[str, World]]:
        free = process._replace(reviving=None)
        if process.losses:
            yield "revival gets no answer", _set(world, mine, free._replace(losses=process.losses - 1))
        answer = rules.revival(
            asked.held, asked.kept, was_unanswered=asked.was_unanswered, constrained=self.constrained
        )
        session = after(process.session, answer.event)[0]
        if asked.renewal is not None and not session.is_lost:
            session = _confirmed(session, asked.renewal)[0]
        held = tuple(item for item in process.held if item[:2] not in answer.gone)
        yield f"revived: {answer.event}", _set(world, mine, _from_zero(free._replace(session=session, held=held)))

    # What the database does, one statement or transaction each.

    def _commit(
        self, world: World, mine: int, statement: Statement
    ) -> tuple[World, tuple[Held, ...], tuple[Settled, ...]]:
        """``settle_and_claim``: the settlements, and the first ready messages, in order."""
        world, void = self._settle(world, mine, statement.batch, late=False)
        ready = [number for number in statement.seen if world.rows[number].state is READY]
        ready.sort(key=lambda number: order_of(0, 0, number))
        line = [(world.rows[number].suspect, 1) for number in ready[: statement.credit]]
        claimed = []
        for number in ready[: fitting(line, self.slots, most_bytes=self.messages)]:
            row = world.rows[number]
            taken = row._replace(
                owner=mine,
                token=_new_token(world, number),
                counted=False,
                attempts=row.attempts + row.suspect,
                given=min(row.given + row.suspect, self.max_attempts),
            )
            world = _move(world, number, taken, CLAIMED)
            claimed.append(Held(number, taken.token, row.attempts, row.suspect))
        return world, tuple(claimed), void

    def _settle(
        self, world: World, mine: int, batch: tuple[Settled, ...], *, late: bool = True
    ) -> tuple[World, tuple[Settled, ...]]:
        """``settle``: what the session holds by this token, or ``late`` what it held. Return the void ones."""
        void = []
        for item in batch:
            if late:
                world, _ = self._retake(world, mine, frozenset({(item.message, item.token)}))
            row = world.rows[item.message]
            if not self.is_fenced(row, mine, item):
                void.append(item)
                continue
            if (row.state, row.owner, row.token) != (CLAIMED, mine, item.token):
                raise Broken(f"a late settlement of message {item.message} counts")
            attempts = row.attempts + self.charge(row, item)
            self._check_attempts(item.message, row._replace(attempts=attempts))
            settled = row._replace(
                owner=NO_SESSION, token=0, attempts=attempts, suspect=row.suspect and not item.counted
            )
            state = {ACCEPT: GONE, RELEASE: READY, Verdict.DEAD: DEAD}[item.verdict]
            if state is not READY:
                settled = Row(given=row.given)  # the rest does not matter any more
            world = _move(world, item.message, settled, state)
        return world, tuple(void)

    def is_fenced(self, row: Row, mine: int, item: Settled) -> bool:
        """``settle_finished``: the session and the claim token."""
        return (row.state, row.owner, row.token) == (CLAIMED, mine, item.token)

    def charge(self, row: Row, item: Settled) -> int:
        """``_counted``: a suspect's attempt was counted when it was claimed."""
        if item.verdict is ACCEPT:
            return 0
        return int(item.counted and not row.suspect) - int(row.suspect and not item.counted)

    def _reap(self, world: World, mine: int) -> World:
        """``release_held_by_expired``; the row of the session goes."""
        for number, row in enumerate(world.rows):
            if _is_claimed(row, mine):
                back = row._replace(owner=NO_SESSION, suspect=True, counted=row.suspect)
                world = _move(world, number, back, READY)
                if row.suspect:
                    what = verdict(Ending.FAILED, row.attempts, AtOnce(self.max_attempts)).verdict
                    if what is Verdict.DEAD:
                        world = _move(world, number, back._replace(suspect=False), DEAD)
        return _session(world, mine, False)

    def _retake(
        self, world: World, mine: int, receipts: frozenset[tuple[int, int]]
    ) -> tuple[World, frozenset[int]]:
        """``retake``: what was taken from the session, and not claimed, settled or moved since."""
        taken = set()
        for number, token in receipts:
            row = world.rows[number]
            if row.token != token or row.owner not in (NO_SESSION, mine) or row.state is GONE:
                continue
            taken.add(number)
            if row.owner == NO_SESSION:
                again = row._replace(state=CLAIMED, owner=mine, suspect=row.counted, counted=False)
                world = _row(world, number, again)
        return world, frozenset(taken)

    def _resync(self, world: World, mine: int, process: Process) -> World:
        """``release_unknown``: what is claimed in the session's name, and not held."""
        known = {item.message for item in process.held}
        world = self._release(world, mine, known)
        return _set(world, mine, process._replace(resyncs=process.resyncs - 1))

    def _close(self, world: World, mine: int, process: Process) -> World:
        """``Session.close``: the last settlements; the rest goes back, and the row goes."""
        world = self._release(self._settle(world, mine, process.pending)[0], mine, set())
        closed = Process(alive=True, stops=0, crashes=0, losses=0)._replace(
            session=SessionRecord(state=after(process.session, SessionEvent.CLOSED)[0].state)
        )
        return _set(_session(world, mine, False), mine, closed)

    def _release(self, world: World, mine: int, known: set[int]) -> World:
        for number, row in enumerate(world.rows):
            if _is_claimed(row, mine) and number not in known:
                back = row._replace(owner=NO_SESSION, token=0, attempts=row.attempts - row.suspect)
                world = _move(world, number, back, READY)
        return world

    # What must hold.

    def check(self, world: World) -> None:
        for number, row in enumerate(world.rows):
            self._check_attempts(number, row)
            if row.state in (READY, CLAIMED) and row.attempts - row.suspect >= self.max_attempts:
                raise Broken(f"message {number} has used its attempts, and is not dead")
            if row.state is GONE and not row.given:
                raise Broken(f"message {number} is gone, and no handler had it")
        for mine, process in enumerate(world.processes):
            if len(process.held) > self.credit:
                raise Broken(f"session {mine} holds more than its credit")

    def _check_attempts(self, number: int, row: Row) -> None:
        if row.attempts > row.given:
            raise Broken(f"message {number} is charged {row.attempts} attempts, and was given {row.given} times")
        if row.attempts > self.max_attempts:
            raise Broken(f"message {number} is tried more than {self.max_attempts} times")

    def check_end(self, world: World) -> None:
        serving = any(
            process.alive and process.session.state is SessionState.OPEN and not process.session.retired
            for process in world.processes
        )
        for number, row in enumerate(world.rows):
            if row.state is CLAIMED:
                raise Broken(f"message {number} stays claimed by session {row.owner}")
            if serving and row.state is READY:
                raise Broken(f"message {number} is ready, and no session claims it")


# Plain functions over the values.


def _aged(process: Process) -> Process:
    """A deadline passes: neither the last renewal nor one that is under way makes the lease certain."""
    heartbeat, reviving = process.heartbeat, process.reviving
    if process.session.confirmed_at != LONG_AGO:
        process = process._replace(session=replace(process.session, confirmed_at=LONG_AGO))
    if heartbeat is not None:
        process = process._replace(heartbeat=heartbeat._replace(aged=True))
    if reviving is not None and reviving.renewal is not None:
        process = process._replace(reviving=reviving._replace(renewal=reviving.renewal._replace(aged=True)))
    return process


def _confirmed(session: SessionRecord, renewal: Statement) -> tuple[SessionRecord, frozenset[Consequence]]:
    record, consequences = after(session, SessionEvent.RENEWED)
    return replace(record, confirmed_at=LONG_AGO if renewal.aged else RECENT), consequences


def _from_zero(process: Process) -> Process:
    """Count the revivals from the last one: only differences matter."""
    number = process.session.revivals
    older = [
        statement and statement._replace(revivals=statement.revivals - number)
        for statement in (process.driver, process.heartbeat)
    ]
    return process._replace(session=replace(process.session, revivals=0), driver=older[0], heartbeat=older[1])


def _at(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])


def _set(world: World, mine: int, process: Process) -> World:
    return world._replace(processes=_at(world.processes, mine, process))


def _session(world: World, mine: int, exists: bool) -> World:
    return world._replace(sessions=_at(world.sessions, mine, exists))


def _is_claimed(row: Row, mine: int) -> bool:
    return row.state is CLAIMED and row.owner == mine


def _row(world: World, number: int, row: Row) -> World:
    return world._replace(rows=_at(world.rows, number, row))


def _move(world: World, number: int, row: Row, state: State) -> World:
    before = world.rows[number].state
    if state not in MOVES[before]:
        raise Broken(f"message {number} goes from {before.name} to {state.name}")
    return _row(world, number, row._replace(state=state))


def _new_token(world: World, number: int) -> int:
    """Return a claim token that nothing in the world remembers: tokens stay small, and worlds alike."""
    known = {world.rows[number].token}
    for process in world.processes:
        items: list[Held | Settled] = [*process.held, *process.prefetched, *process.running, *process.pending]
        for statement in filter(None, (process.driver, process.heartbeat)):
            items += [*statement.batch, *statement.claimed]
        known.update(item.token for item in items if item.message == number)
        if process.reviving is not None:
            known.update(token for message, token in process.reviving.held if message == number)
    for orphan in filter(None, world.orphans):
        known.update(item.token for item in orphan.batch if item.message == number)
    return next(token for token in count(1) if token not in known)


def _with(items: tuple[Held, ...], item: Held) -> tuple[Held, ...]:
    return tuple(sorted((*items, item)))


def _again(session: SessionRecord, statement: Statement) -> tuple[Settled, ...]:
    return statement.void if session.is_revived_since(statement.revivals) else ()


def _written(process: Process, statement: Statement) -> Process:
    """``SettlementWriter.written``: what a revival has overtaken is settled again."""
    again = _again(process.session, statement)
    ended = {item[:2] for item in statement.batch if item not in again}
    held = tuple(item for item in process.held if item[:2] not in ended)
    return process._replace(held=held, pending=(*again, *process.pending))
