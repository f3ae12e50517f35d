"""Figures into their tables: those of a day that is computed again take the place of the old ones."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction

from django_mq.models import InsightHour

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Rows of one upsert.
CHUNK = 500


def keep_hours(rows: list[dict[str, Any]], alias: str) -> None:
    """Write the hours as the groups have counted them.

    A queue's day that is among them is replaced whole: with fewer levels, or without what was
    restored elsewhere, rows of the last time would be left over. A day of which nothing is left to
    count keeps the figures it has.
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


def _hour(row: dict[str, Any]) -> InsightHour:
    fields = dict(row)
    fields["queue_name"] = fields.pop("queue")
    fields["hour"] = datetime.fromtimestamp(fields["hour"] / 1_000_000, tz=UTC)
    for name in ("wait_histogram", "run_histogram"):
        fields[name] = json.loads(fields[name])
    return InsightHour(**fields)


def upsert(model: Any, rows: Iterable[Any], key: list[str], alias: str) -> None:
    """Write rows over those that have the same key: another job may have written them meanwhile."""
    fields = [field.name for field in model._meta.concrete_fields if field.name not in {"id", *key}]
    named = connections[alias].features.supports_update_conflicts_with_target
    model.objects.using(alias).bulk_create(
        rows, CHUNK, update_conflicts=True, update_fields=fields, unique_fields=key if named else None
    )
