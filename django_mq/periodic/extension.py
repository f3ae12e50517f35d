"""How periodic messages enter: a duty that publishes, the ends of their messages, and what the doctor finds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from django.db.models import Max, Q
from django.utils.translation import gettext as _

from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.periodic import is_too_old
from django_mq.periodic import duty
from django_mq.periodic.declared import declare_all
from django_mq.periodic.models import PeriodicRun
from django_mq.periodic.publisher import LISTENING
from django_mq.seams.extension import Duty, Extension, Listening
from django_mq.seams.findings import problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    succeeded = Max("runs__ended_at", filter=Q(runs__outcome=PeriodicRun.TickOutcome.SUCCEEDED))
    wanted = Q(is_gone=True) | Q(is_paused=False, alert_seconds__isnull=False)
    for row in duty.rows(alias).filter(wanted).annotate(newest=succeeded):
        about = _("periodic message %(name)s") % {"name": row.name}
        if row.is_gone:
            mend = _("Mend it, then run manage.py mq_periodic resume %(name)s.") % {"name": row.name}
            yield problem(about, _("It is paused: %(reason)s") % {"reason": row.paused_reason}, mend)
            continue
        last = max(filter(None, (row.newest, row.succeeded_at, row.created_at)))
        if is_too_old(last, duty.now_of(row), row.alert_seconds):
            sentence = _("Its last success is older than %(seconds)g seconds: %(last)s.")
            mend = _("Look at its last runs in the admin.")
            yield problem(
                about, sentence % {"seconds": row.alert_seconds, "last": f"{last:%Y-%m-%d %H:%M:%S}"}, mend
            )


EXTENSION = Extension(
    name="periodic",
    duties=(
        Duty(name="declare", run=declare_all, interval_seconds=math.inf),
        Duty(name="publish", run=duty.look, leader_only=True, is_due=duty.is_time),
    ),
    ends=(Listening(name=LISTENING, ends=frozenset(OUTCOMES), wants=None, tell=note_ends),),
    findings=(find,),
)
