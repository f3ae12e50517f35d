"""A duty that counts members of chords whose worker is gone, and that were acknowledged before they ended.

It looks at the chords that go on, every few seconds. What a member was last doing is in the queues, in the
history, and among what living workers say that they run. A member counts when it was found so for long enough.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from django_mq import conf
from django_mq.engine.decisions.chords import Loss, Trace, is_abandoned, is_lost, trace_of
from django_mq.models import History, Message, WorkerSession
from django_mq.results import results, rosters, waiting
from django_mq.results.lost import count_lost, error_of
from django_mq.results.models import Chord, ChordMember, ChordRoster, StoredResult
from django_mq.results.places import NESTING
from django_mq.results.results import MANY
from django_mq.stores.clock import clock
from django_mq.stores.records import running_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.results.places import AwaitedMember
    from django_mq.stores.base import Store

#: The least time between two looks at a chord.
LOOK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Living:
    """The sessions of workers that have not ended, and the messages of what they run."""

    sessions: frozenset[int]
    running: frozenset[UUID]

    @classmethod
    def of(cls, alias: str) -> Living:
        """Read them."""
        rows = list(WorkerSession.objects.using(alias).values_list("pk", "running"))
        begun = [each.begun for _, running in rows for each in running_in(running)]
        messages = frozenset(UUID(each.message_id) for each in begun if each is not None)
        return cls(frozenset(session for session, _ in rows), messages)


class LastRun(NamedTuple):
    """The last message of a task that has left its queue."""

    message_id: UUID
    is_accepted: bool
    session_id: int | None
    nesting: int
    ignores_result: bool


class KnownTasks:
    """What the database knows of the tasks that lead to members."""

    def __init__(self, members: Iterable[AwaitedMember], living: Living, alias: str) -> None:
        self._living = living
        self._waiting: set[str] = set()
        self._ended: set[str] = set()
        self._runs = defaultdict[str, list[LastRun]](list)
        tasks = {each: member.nesting for member in members for stage in member.stages for each in stage}
        # The headers are long, and most tasks do not need them.
        self._nested = {task_id for task_id, nesting in tasks.items() if nesting}
        ids = sorted(tasks)
        for start in range(0, len(ids), MANY):
            self._read(ids[start : start + MANY], alias)

    def _read(self, ids: Sequence[str], alias: str) -> None:
        live = Message.objects.using(alias).filter(correlation_id__in=ids)
        self._waiting.update(filter(None, live.order_by().values_list("correlation_id", flat=True)))
        ended = StoredResult.objects.using(alias).filter(task_id__in=ids, done_at__isnull=False)
        self._ended.update(ended.order_by().values_list("task_id", flat=True))
        past = History.objects.using(alias)
        columns = ("pk", "correlation_id", "message_id", "outcome", "session_id")
        rows = list(past.filter(correlation_id__in=ids).order_by("pk").values_list(*columns))
        wanted = [row[0] for row in rows if row[1] in self._nested or row[4] not in self._living.sessions]
        headers = dict(past.filter(pk__in=wanted).order_by().values_list("pk", "headers"))
        for pk, task_id, message_id, outcome, session_id in rows:
            known = headers.get(pk) or {}
            accepted, nesting = outcome == History.Outcome.ACCEPTED, known.get(NESTING) or 0
            ignores_result = bool(known.get("ignore_result"))
            self._runs[str(task_id)].append(LastRun(message_id, accepted, session_id, nesting, ignores_result))

    def last_run(self, task_id: str, nesting: int) -> LastRun | None:
        """Return the last message of a task, or of its replacement."""
        found = [each for each in self._runs[task_id] if each.nesting >= nesting]
        return found[-1] if found else None

    def trace(self, task_id: str, nesting: int) -> Trace:
        """Return what is known of a task."""
        run = self.last_run(task_id, nesting)
        return trace_of(
            waits=task_id in self._waiting,
            has_result=task_id in self._ended,
            was_accepted=None if run is None else run.is_accepted,
            session_lives=run is not None
            and (run.session_id in self._living.sessions or run.message_id in self._living.running),
        )

    def abandoned(self, member: AwaitedMember) -> str | None:
        """Return the task of a member that no worker will end; None if there is none."""
        traces = [[self.trace(each, member.nesting) for each in stage] for stage in member.stages]
        if not is_abandoned(traces):
            return None
        gone = (stage for stage, known in zip(member.stages, traces, strict=True) if known == [Trace.GONE])
        return [task_id for [task_id] in gone][-1]


def count_abandoned(store: Store, limit: int) -> dict[str, int]:
    """Count members whose worker is gone, of ``limit`` rosters at most; return how many there were of both."""
    if not store.features.durable:
        return {}
    now, alias = clock.now(), store.alias
    kept = ChordRoster.objects.using(alias)
    due = kept.filter(looked_at__lte=now - timedelta(seconds=LOOK_SECONDS)).order_by("looked_at")
    rows = list(due.values_list("pk", "group_id")[:limit])
    if not rows:
        return {"looked": 0, "lost": 0}
    groups = sorted({group_id for _, group_id in rows})
    chords = Chord.objects.using(alias).filter(group_id__in=groups, ended_at=None)
    expiries = dict(chords.values_list("group_id", "expires_at"))
    kept.filter(pk__in=[pk for pk, group_id in rows if group_id not in expiries]).delete()
    kept.filter(group_id__in=list(expiries)).update(looked_at=now)
    living = Living.of(alias) if expiries else None
    lost = sum(_look(store, group_id, living, expires_at) for group_id, expires_at in expiries.items() if living)
    return {"looked": len(rows), "lost": lost}


def _look(store: Any, group_id: str, living: Living, expires_at: datetime | None) -> int:
    """Count the members of a chord that are lost; return how many."""
    now, alias, lost = clock.now(), store.alias, 0
    rows = list(ChordRoster.objects.using(alias).filter(group_id=group_id).order_by("pk"))
    # A later row tells of a member that has replaced itself.
    awaited = {each.place: (each, row) for row in rows for each in rosters.read(group_id, row.members)}
    counted = ChordMember.objects.using(alias).filter(group_id=group_id).values_list("task_id", "position")
    for task_id, position in counted:
        awaited.pop((group_id, task_id, position), None)  # type: ignore[call-overload] # as a place compares
    known = KnownTasks([member for member, _ in awaited.values()], living, alias)
    suspects: dict[int, dict[str, str]] = {row.pk: {} for row in rows}
    for member, row in awaited.values():
        gone = known.abandoned(member)
        if gone is None:
            continue
        name = f"{member.place.position} {member.place.task_id}"
        since = _times_in(row.suspects).get(name, now.isoformat())
        if not is_lost(datetime.fromisoformat(since), now, conf.load().SESSION_SECONDS):
            suspects[row.pk][name] = since
        elif _lose(store, member, gone, known.last_run(gone, member.nesting), expires_at):
            lost += 1
    for row in rows:
        if _times_in(row.suspects) != suspects[row.pk]:
            row.suspects = json.dumps(suspects[row.pk]) if suspects[row.pk] else ""
            row.save(using=alias, update_fields=["suspects"])
    return lost


def _times_in(text: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(text) if text else {}
    return found


def _lose(
    store: Any, member: AwaitedMember, task_id: str, run: LastRun | None, expires_at: datetime | None
) -> bool:
    """Count a lost member, and write that it has failed, as has the task whose worker is gone."""
    place = member.place
    with store.database.transaction():
        if not count_lost(store, place, Loss.WORKER):
            return False
        if run is not None and not run.ignores_result:
            for each in dict.fromkeys((task_id, place.task_id)):
                columns = {**error_of(Loss.WORKER), "done_at": clock.now(), "expires_at": expires_at}
                results.store(store, task_id=each, group_id=place.group_id, message_id=run.message_id, **columns)
                waiting.announce(each, store)
    return True
