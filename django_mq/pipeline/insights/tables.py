"""Write the figures to their tables, replacing those of the same days.

The causes of failed attempts and dead letters are counted in SQL, because these rows are few.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction
from django.db.models import Count, F, Q
from django.db.models.fields.json import KeyTextTransform

from django_mq.engine.histograms import merged
from django_mq.models import Attempt, InsightCause, InsightDay, InsightHour, Message
from django_mq.models.times import UTCDate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

#: Rows of one upsert.
CHUNK = 500
#: Maintenance deletes failed attempts after this time: the causes of older days are not counted again.
ATTEMPTS_STAY_DAYS = 30
#: Queue, day, True for a dead letter or False for a failed attempt, and reason.
Cause = tuple[str, date, bool, str]


def keep_hours(rows: list[dict[str, Any]], alias: str) -> None:
    """Write the figures of the hours, and the sums of their histograms by day.

    All rows of a queue and day are replaced: with fewer levels, or after a restore
    elsewhere, old rows would be left over. A day without messages
    keeps its old figures.
    """
    made = [_hour(row) for row in rows]
    queues: defaultdict[date, set[str]] = defaultdict(set)
    for row in made:
        queues[row.hour.date()].add(row.queue_name)
    with transaction.atomic(using=alias):
        for day, names in queues.items():
            start = datetime.combine(day, time.min, tzinfo=UTC)
            known = InsightHour.objects.using(alias).filter(hour__gte=start, hour__lt=start + timedelta(days=1))
            known.filter(queue_name__in=names).delete()
        upsert(InsightHour, made, ["queue_name", "level", "hour"], alias)
        upsert(InsightDay, _days(rows), ["queue_name", "day"], alias)


def _days(rows: list[dict[str, Any]]) -> list[InsightDay]:
    """Return the sums of the histograms of all levels, for each queue and day."""
    found: defaultdict[tuple[str, date], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["level"] == InsightHour.ALL_LEVELS:
            found[row["queue"], _time(row["hour"]).date()].append(row)
    return [
        InsightDay(
            queue_name=queue,
            day=day,
            wait_histogram=merged(row["wait_histogram"] for row in hours),
            run_histogram=merged(row["run_histogram"] for row in hours),
        )
        for (queue, day), hours in found.items()
    ]


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, tz=UTC)


def _hour(row: dict[str, Any]) -> InsightHour:
    fields = dict(row)
    fields["queue_name"] = fields.pop("queue")
    fields["hour"] = _time(fields["hour"])
    for name in ("wait_histogram", "run_histogram"):
        fields[name] = json.loads(fields[name])
    return InsightHour(**fields)


def upsert(model: Any, rows: Iterable[Any], key: list[str], alias: str) -> None:
    """Write rows, replacing those of the same key: another job may have written them meanwhile."""
    fields = [field.name for field in model._meta.concrete_fields if field.name not in {"id", *key}]
    named = connections[alias].features.supports_update_conflicts_with_target
    model.objects.using(alias).bulk_create(
        rows, CHUNK, update_conflicts=True, update_fields=fields, unique_fields=key if named else None
    )


def keep_causes(alias: str, since: date, until: date) -> None:
    """Count the causes of these days, and replace those counted before.

    Dead letters that have been redriven or deleted since then are no longer counted.
    """
    whole = max(since, datetime.now(UTC).date() - timedelta(days=ATTEMPTS_STAY_DAYS - 1))
    with transaction.atomic(using=alias):
        found = {**dead_letters(alias, since, until), **failures(alias, since, until)}
        known = InsightCause.objects.using(alias).filter(day__gte=since, day__lte=until)
        known.filter(Q(dead=True) | Q(day__gte=whole)).delete()
        staying = set(known.values_list("queue_name", "day", "dead", "reason"))
        rows = [
            InsightCause(queue_name=queue, day=day, dead=dead, reason=reason, messages=count)
            for (queue, day, dead, reason), count in found.items()
            if (queue, day, dead, reason) not in staying
        ]
        upsert(InsightCause, rows, ["queue_name", "day", "dead", "reason"], alias)


def failures(alias: str, since: date, until: date) -> dict[Cause, int]:
    """Return how many attempts failed, by cause."""
    rows = Attempt.objects.using(alias).annotate(name=F("queue_name"), at=F("failed_at"), reason=F("error"))
    return _count(rows, since, until, dead=False)


def dead_letters(alias: str, since: date, until: date) -> dict[Cause, int]:
    """Return how many dead letters there are by cause, in the queues where they died and in dead-letter queues."""
    messages = Message.objects.using(alias)
    here = messages.filter(state=Message.Status.DEAD).annotate(
        name=F("queue__name"), at=F("dead_at"), reason=F("dead_reason")
    )
    moved = messages.filter(headers__has_key="x-origin-queue").annotate(
        name=KeyTextTransform("x-origin-queue", "headers"),
        at=F("published_at"),
        reason=KeyTextTransform("x-dead-reason", "headers"),
    )
    found = _count(here, since, until, dead=True)
    for cause, count in _count(moved, since, until, dead=True).items():
        found[cause] = found.get(cause, 0) + count
    return found


def _count(rows: QuerySet[Any], since: date, until: date, *, dead: bool) -> dict[Cause, int]:
    days = rows.annotate(day=UTCDate("at")).filter(day__gte=since, day__lte=until)
    found: dict[Cause, int] = {}
    for name, day, reason, count in days.order_by().values_list("name", "day", "reason").annotate(n=Count("id")):
        # Two long reasons may be equal after the cut.
        cause = (name or "", day, dead, (reason or "")[:255])
        found[cause] = found.get(cause, 0) + count
    return found
