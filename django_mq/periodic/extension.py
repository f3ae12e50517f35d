"""How periodic messages enter: a duty that publishes, the ends of their messages, and what the doctor finds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from django.db.models import Max
from django.utils.translation import gettext as _

from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.periodic import is_too_old
from django_mq.periodic import duty
from django_mq.periodic.beat import published_too
from django_mq.periodic.declared import PROJECT, declare_all
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.periodic.publisher import LISTENING
from django_mq.seams.extension import Duty, Extension, Listening
from django_mq.seams.findings import notice, problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from django_mq.engine.decisions.ends import Ended
    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

OUTCOMES: Final = {End.ACCEPTED: PeriodicRun.TickOutcome.SUCCEEDED, End.DEAD: PeriodicRun.TickOutcome.DEAD}


def note_ends(store: Store, ended: Sequence[Ended]) -> None:
    """Write how runs have ended. Raises StoreError."""
    for each in ended:
        store.periodic.end(each.message_id, OUTCOMES[each.end].value)  # type: ignore[attr-defined]  # of databases


def find(alias: str) -> Iterator[Finding]:
    """Yield periodic messages that cannot be published, and those whose last success is too old."""
    about = _("periodic message %(name)s")
    gone = PeriodicMessage.objects.using(alias).filter(is_gone=True).order_by("name")
    for name, reason in gone.values_list("name", "paused_reason"):
        mend = _("Mend it, then run manage.py mq_periodic resume %(name)s.") % {"name": name}
        yield problem(about % {"name": name}, _("It is paused: %(reason)s") % {"reason": reason}, mend)
    for row, last in overdue(alias):
        sentence = _("Its last success is older than %(seconds)g seconds: %(last)s.")
        values = {"seconds": row.alert_seconds, "last": f"{last:%Y-%m-%d %H:%M:%S}"}
        yield problem(about % {"name": row.name}, sentence % values, _("Look at its last runs in the admin."))
    for name in published_too(alias):
        sentence = _("celery beat publishes it, too: what it publishes is dropped.")
        yield notice(about % {"name": name}, sentence, _("Stop celery beat, or delete the periodic message."))


def overdue(alias: str) -> Iterator[tuple[PeriodicMessage, datetime]]:
    """Yield the rows whose last success, or beginning, is longer ago than stated, with that time."""
    fields = ("name", "alert_seconds", "succeeded_at", "created_at")
    watched = duty.rows(alias).filter(is_paused=False, alert_seconds__isnull=False).only(*fields).order_by("name")
    # The rows know the success before the last tick: only where it is too old, the runs are asked.
    old = {row.pk: row for row in watched if _is_overdue(row, row.succeeded_at or row.created_at)}
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


EXTENSION = Extension(
    name="periodic",
    duties=(
        Duty(name="declare", run=declare_all, interval_seconds=math.inf),
        Duty(name="publish", run=duty.look, leader_only=True, is_due=duty.is_time),
    ),
    ends=(Listening(name=LISTENING, ends=frozenset(OUTCOMES), wants=None, tell=note_ends),),
    findings=(find,),
    settings=(PROJECT,),
)
