"""How periodic messages enter: a duty that publishes, the ends of their messages, and what the doctor finds."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Max, Q
from django.utils.translation import gettext as _

from django_mq.diagnosis.language import LOCAL
from django_mq.engine.decisions.ends import End, RunOutcome
from django_mq.engine.decisions.periodic import LATE_SECONDS, is_too_old
from django_mq.models.times import UTCNow
from django_mq.periodic import duty
from django_mq.periodic.beat import is_published_too
from django_mq.periodic.declared import PROJECT, declare_all
from django_mq.periodic.marks import LISTENING, run_id
from django_mq.periodic.models import PeriodicMessage, PeriodicRun, with_last_run
from django_mq.seams.extension import Duty, Extension, Listening, MessageEvent
from django_mq.seams.findings import notice, problem
from django_mq.seams.tiles import Tile
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from django.http import HttpRequest

    from django_mq.engine.decisions.ends import Ended
    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

#: What is read of a row to know what it lacks.
FIELDS: Final = (
    *("name", "is_gone", "is_paused", "paused_reason", "alert_seconds"),
    *("succeeded_at", "created_at", "dropped_at", "next_at"),
)
#: A tick that is not published for so long is a problem.
NOT_PUBLISHED: Final = timedelta(seconds=2 * LATE_SECONDS)
OUTCOMES: Final = {
    End.ACCEPTED: PeriodicRun.TickOutcome.SUCCEEDED,
    End.DEAD: PeriodicRun.TickOutcome.DEAD,
    End.EXPIRED: PeriodicRun.TickOutcome.EXPIRED,
    **dict.fromkeys((End.CANCELLED, End.PURGED, End.REPLACED), PeriodicRun.TickOutcome.REMOVED),
}
#: A message whose last run has ended so needs a look.
FAILED: Final = frozenset(
    {PeriodicRun.TickOutcome.DEAD, PeriodicRun.TickOutcome.MISSED, PeriodicRun.TickOutcome.EXPIRED}
)
#: A run that is retried has not ended.
OUTCOMES_OF_RUNS: Final = {
    RunOutcome.SUCCEEDED: PeriodicRun.TickOutcome.SUCCEEDED,
    RunOutcome.FAILED: PeriodicRun.TickOutcome.DEAD,
    RunOutcome.LOST: PeriodicRun.TickOutcome.DEAD,
    RunOutcome.REVOKED: PeriodicRun.TickOutcome.REMOVED,
    # What becomes of it elsewhere is not told here.
    RunOutcome.FORWARDED: PeriodicRun.TickOutcome.SUCCEEDED,
}


def note_ends(store: Store, ended: Sequence[Ended]) -> None:
    """Write how runs have ended. Raises StoreError."""
    if not store.features.durable:
        return
    for each in ended:
        outcome = OUTCOMES[each.end] if each.outcome is None else OUTCOMES_OF_RUNS.get(each.outcome)
        if outcome is not None:
            has_run = each.end in {End.ACCEPTED, End.DEAD}
            id_ = run_id(each.message_id, headers_in(each.headers))
            end = store.periodic.end  # type: ignore[attr-defined]  # of databases
            end(id_, outcome.value, each.queue, has_run=has_run)


def tiles(alias: str) -> list[Tile]:
    """Return how many periodic messages have failed the last time; none without periodic messages."""
    rows: Any = with_last_run(PeriodicMessage.objects.using(alias).filter(is_paused=False)).order_by()
    outcomes = list(rows.values_list("last_outcome", flat=True))
    if not outcomes:
        return []
    failed = sum(outcome in FAILED for outcome in outcomes)
    title, of = _("Periodic failures"), len(outcomes)
    return [Tile(name="failed", title=title, value=failed, of=of, bad=failed > 0, model="periodicmessage")]


def find(alias: str) -> Iterator[Finding]:
    """Yield periodic messages that cannot be published, or are late, or that celery beat publishes, too.

    A scrape of the metrics asks for this: one statement, and a second one where a success may be too old.
    """
    late = UTCNow() + (clock.offset - NOT_PUBLISHED)
    wanted = Q(is_gone=True) | Q(is_paused=False, alert_seconds__isnull=False) | Q(dropped_at__isnull=False)
    wanted |= Q(is_paused=False, next_at__lt=late)
    found = list(duty.rows(alias).filter(wanted).only(*FIELDS).order_by("name"))
    for row in found:
        if row.is_gone:
            mend = _("Mend it, then run manage.py mq_periodic resume %(name)s.") % {"name": row.name}
            yield problem(_about(row), _("It is paused: %(reason)s") % {"reason": row.paused_reason}, mend)
        elif not row.is_paused and row.next_at and duty.now_of(row) - row.next_at > NOT_PUBLISHED:
            sentence = _("Its tick of %(due)s is not published.") % {"due": LOCAL.time(row.next_at)}
            mend = _("Look at the log of the worker that is the leader: it may lack the code, or no worker runs.")
            yield problem(_about(row), sentence, mend)
    for row, last in _overdue(found, alias):
        sentence = _("Its last success is older than %(time)s: %(last)s.")
        values = {"time": LOCAL.duration(row.alert_seconds), "last": LOCAL.time(last)}
        yield problem(_about(row), sentence % values, _("Look at its last runs in the admin."))
    for row in found:
        if is_published_too(row):
            sentence = _("celery beat publishes it, too: what it publishes is dropped.")
            yield notice(_about(row), sentence, _("Stop celery beat, or delete the periodic message."))


def _about(row: PeriodicMessage) -> str:
    return _("periodic message %(name)s") % {"name": row.name}


def _overdue(rows: Sequence[PeriodicMessage], alias: str) -> Iterator[tuple[PeriodicMessage, datetime]]:
    """Yield the rows whose last success, or beginning, is longer ago than stated, with that time."""
    # The rows know the success before the last tick: only where it is too old, the runs are asked.
    old = {
        row.pk: row for row in rows if not row.is_paused and _is_overdue(row, row.succeeded_at or row.created_at)
    }
    runs = PeriodicRun.objects.using(alias).filter(
        periodic__in=list(old), outcome=PeriodicRun.TickOutcome.SUCCEEDED
    )
    newest = dict(runs.values_list("periodic").annotate(newest=Max("ended_at")).order_by()) if old else {}
    for key, row in old.items():
        last = max(filter(None, (newest.get(key), row.succeeded_at, row.created_at)))
        if _is_overdue(row, last):
            yield row, last


def _is_overdue(row: PeriodicMessage, last: datetime) -> bool:
    return is_too_old(last, duty.now_of(row), row.alert_seconds)


def events_of(request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield the ticks that have published a message, if the user may view periodic messages."""
    if not request.user.has_perm("django_mq.view_periodicmessage"):
        return
    runs = PeriodicRun.objects.using(alias).filter(message_id__in=message_ids).select_related("periodic")
    for run in runs.order_by("pk"):
        words = _("run of “%(name)s”, by hand") if run.by_hand else _("tick of “%(name)s”")
        yield MessageEvent(time=run.due_at, words=words % {"name": run.periodic.name}, queue=run.queue_name)


EXTENSION = Extension(
    name="periodic",
    duties=(
        Duty(name="declare", run=declare_all, interval_seconds=math.inf),
        Duty(name="publish", run=duty.look, leader_only=True, is_due=duty.is_time),
    ),
    ends=(Listening(name=LISTENING, ends=frozenset(OUTCOMES), wants=None, tell=note_ends),),
    findings=(find,),
    tiles=(tiles,),
    events=(events_of,),
    settings=(PROJECT,),
)
