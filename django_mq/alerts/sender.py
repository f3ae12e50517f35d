"""Sends what is due, and notes what came of it.

A process takes notices by a change of their time, which only one of them can make. If it then dies, they are due
again after a lease. What a target gets at once is one message; while it fails, newer notices wait behind it.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from django.db.models import F

from django_mq.alerts.channels import NotSentError, send
from django_mq.alerts.models import AlertNotice
from django_mq.engine.decisions.alerts import MOST_TRIES, next_try

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from django_mq.engine.decisions.alerts import AlertTarget

logger = logging.getLogger("django_mq.alerts")

#: Longer than a request and a mail may take.
LEASE: Final = timedelta(seconds=120)
#: The most alerts in a message.
MOST_TOGETHER: Final = 50
GONE: Final = "The settings have no such target any more."


def send_due(targets: Sequence[AlertTarget], now: datetime, *, using: str) -> int:
    """Send to each target what is due; return how many notices were sent."""
    rows = AlertNotice.objects.using(using)
    names = {target.name for target in targets}
    rows.filter(next_at__isnull=False).exclude(target__in=names).update(next_at=None, error=GONE)
    return sum(_send_to(target, now, using) for target in targets)


def _send_to(target: AlertTarget, now: datetime, using: str) -> int:
    waiting = AlertNotice.objects.using(using).filter(target=target.name, next_at__isnull=False)
    first = list(waiting.select_related("alert").order_by("pk")[:MOST_TOGETHER])
    # What was tried together is tried together again, and keeps its id.
    batch = list(takewhile(lambda notice: notice.tries == first[0].tries, first))
    mine = [notice for notice in batch if notice.next_at and notice.next_at <= now]
    taken = [notice for notice in mine if _take(notice, now, using)]
    if not taken:
        return 0
    rows = AlertNotice.objects.using(using).filter(pk__in=[notice.pk for notice in taken])
    try:
        send(target, taken, now)
    except NotSentError as error:
        _note_failure(rows, taken[0].tries + 1, target, str(error), now)
        return 0
    return rows.update(sent_at=now, next_at=None, error="")


def _take(notice: AlertNotice, now: datetime, using: str) -> bool:
    mine = AlertNotice.objects.using(using).filter(pk=notice.pk, next_at=notice.next_at)
    return mine.update(next_at=now + LEASE, tries=F("tries") + 1) == 1


def _note_failure(rows: QuerySet[AlertNotice], tries: int, target: AlertTarget, error: str, now: datetime) -> None:
    again = next_try(tries, now)
    rows.update(next_at=again, error=error[:200])
    if again is None:
        logger.error("An alert for %r is given up after %s tries: %s", target.name, MOST_TRIES, error)
    else:
        logger.warning("An alert for %r could not be sent, and is tried again: %s", target.name, error)
