"""How alerts enter: a duty that looks and sends, its settings, and what is found about the sending."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db.models import Count, Max
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq import conf
from django_mq.alerts.models import AlertNotice
from django_mq.alerts.observed import CAUSES, observe
from django_mq.alerts.recorder import prune, record
from django_mq.alerts.sender import send_due
from django_mq.diagnosis.state.acknowledged import snoozed
from django_mq.engine.decisions.alerts import MOST_TRIES, AlertTarget, targets_of
from django_mq.engine.options import Option
from django_mq.models.times import UTCNow
from django_mq.seams.extension import Duty, Extension
from django_mq.seams.findings import problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.seams.findings import Finding
    from django_mq.stores.base import Store

#: Between two looks of the leader.
LOOK_SECONDS: Final = 30.0
#: For so long after it was given up, a message that was not sent is a problem.
SHOWN: Final = timedelta(days=1)
AFTER: Final = Option(
    name="ALERTS_AFTER_SECONDS",
    type="float",
    default=60.0,
    most=86_400,
    help="How long an alert lasts before it is sent.",
)
QUIET: Final = Option(
    name="ALERTS_QUIET_SECONDS",
    type="float",
    default=300.0,
    least=60,
    most=86_400,
    help="How long nothing is found until an alert is over.",
)

#: When this process was first asked to look, on the monotonic clock, for each database.
_first_asked: dict[str, float] = {}


def targets() -> tuple[AlertTarget, ...]:
    """Return the targets of the settings. Raises ConfigurationError."""
    return targets_of(conf.load().ALERTS, CAUSES)


def now_of(store: Store) -> datetime:
    """Return the time of the database."""
    return datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds())


def look(store: Store, _limit: int) -> dict[str, int]:
    """Look as ``look_now`` does, but not when a process begins: after a deploy, its workers come first."""
    asked = time.monotonic()
    if not store.features.durable or asked - _first_asked.setdefault(store.alias, asked) < LOOK_SECONDS:
        return {}
    return look_now(store)


def look_now(store: Store) -> dict[str, int]:
    """Write which alerts have begun and are over, and send what is due; return how many of each."""
    settings, alias, now = conf.load(), store.alias, now_of(store)
    given = {"after_seconds": AFTER.value_in(settings), "quiet_seconds": QUIET.value_in(settings)}
    found, known = targets(), snoozed(using=alias)
    return {
        "changed": record(observe(alias), found, now, **given, snoozed=known, using=alias),
        "sent": send_due(found, now, using=alias),
        "pruned": prune(now, using=alias),
    }


def find(alias: str) -> Iterator[Finding]:
    """Yield the targets that were not told of alerts."""
    rows = AlertNotice.objects.using(alias).filter(next_at=None, sent_at=None, tries__gte=MOST_TRIES)
    lately = rows.filter(alert__seen_at__gt=UTCNow() - SHOWN)
    failed = lately.values("target").annotate(number=Count("pk"), reason=Max("error")).order_by("target")
    for target, number, reason in failed.values_list("target", "number", "reason"):
        words = ngettext(
            "%(count)s message about an alert was not sent. %(reason)s",
            "%(count)s messages about alerts were not sent. %(reason)s",
            number,
        )
        mend = _("Correct DJANGO_MQ['ALERTS'], and try it with manage.py mq_alerts --test %(target)s.")
        about = _("alerts for %(target)s") % {"target": target}
        yield problem(about, words % {"count": number, "reason": reason}, mend % {"target": target})


EXTENSION: Final = Extension(
    name="alerts",
    duties=(Duty(name="look", run=look, interval_seconds=LOOK_SECONDS, leader_only=True),),
    findings=(find,),
    settings=(AFTER, QUIET),
)
