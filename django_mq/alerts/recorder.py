"""Writes which alerts have begun and which are over, and what to send of them.

Any number of processes may look at once: the locks of the standing alerts let one of them write after the other,
and a unique value lets one of them write each new alert.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.db import transaction

from django_mq.alerts.models import AlertNotice, RecordedAlert
from django_mq.alerts.observed import standing
from django_mq.engine.decisions.alerts import AlertNews, is_lasting, is_over, worse
from django_mq.models.deletion import delete_first

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.alerts.observed import Observation
    from django_mq.engine.decisions.alerts import AlertTarget

#: How long an alert is kept that is over, and how many are deleted at a time.
KEPT: Final = timedelta(days=30)
BATCH: Final = 200


def record(
    observed: Sequence[Observation],
    targets: Sequence[AlertTarget],
    now: datetime,
    *,
    after_seconds: float,
    quiet_seconds: float,
    snoozed: Collection[tuple[str, str]] = (),
    using: str,
) -> int:
    """Write what needs a look now, and what to tell of it; return how many alerts have begun or are over."""
    found: dict[UUID | None, Observation] = {each.standing: each for each in observed}
    with transaction.atomic(using=using):
        rows = RecordedAlert.objects.using(using)
        known = list(rows.filter(standing__isnull=False).select_for_update().order_by("pk"))
        for row in known:
            if (each := found.pop(row.standing, None)) is not None:
                row.seen_at, row.level, row.sentence = now, worse(row.level, each.level), each.sentence
        over = [row for row in known if is_over(row.seen_at, now, quiet_seconds)]
        told = AlertNotice.objects.using(using).filter(alert__in=known, news=AlertNews.BEGAN)
        pairs = set(told.values_list("alert_id", "target"))
        notices = [*_begun(known, targets, pairs, after_seconds, snoozed), *_ended(over, pairs)]
        for row in over:
            row.ended_at, row.standing = row.seen_at, None
        rows.bulk_update(known, ["seen_at", "level", "sentence", "ended_at", "standing"], batch_size=BATCH)
        # Another process may have written the same ones.
        rows.bulk_create([_row(each, now) for each in found.values()], ignore_conflicts=True)
        for notice in notices:
            notice.next_at = now
        AlertNotice.objects.using(using).bulk_create(notices, ignore_conflicts=True)
    return len(found) + len(over)


def _row(each: Observation, now: datetime) -> RecordedAlert:
    given = {"cause": each.cause, "about": each.about, "level": each.level, "sentence": each.sentence}
    return RecordedAlert(**given, standing=each.standing, began_at=now, seen_at=now)


def _begun(
    standing: Iterable[RecordedAlert],
    targets: Sequence[AlertTarget],
    told: Collection[tuple[int, str]],
    after_seconds: float,
    snoozed: Collection[tuple[str, str]],
) -> Iterator[AlertNotice]:
    for row in standing:
        if is_lasting(row.began_at, row.seen_at, after_seconds) and (row.cause, row.about) not in snoozed:
            for target in targets:
                if target.wants(row.cause, row.level) and (row.pk, target.name) not in told:
                    yield AlertNotice(alert=row, target=target.name, news=AlertNews.BEGAN)


def _ended(over: Iterable[RecordedAlert], told: Collection[tuple[int, str]]) -> Iterator[AlertNotice]:
    """Yield the ends that are told: those of alerts whose beginnings were."""
    keys = {row.pk for row in over}
    for key, target in told:
        if key in keys:
            yield AlertNotice(alert_id=key, target=target, news=AlertNews.OVER)


def began(identities: Iterable[tuple[str, str]], *, using: str) -> dict[tuple[str, str], datetime]:
    """Return since when alerts stand, by their cause and what they are about; those not recorded are left out."""
    ids: dict[UUID | None, tuple[str, str]] = {standing(*identity): identity for identity in identities}
    found = RecordedAlert.objects.using(using).filter(standing__in=ids).order_by()
    return {ids[key]: time for key, time in found.values_list("standing", "began_at")}


def prune(now: datetime, *, using: str) -> int:
    """Delete the oldest alerts that are over for long; return how many."""
    rows = RecordedAlert.objects.using(using)
    return delete_first(rows.filter(ended_at__lt=now - KEPT).order_by("ended_at"), BATCH)
