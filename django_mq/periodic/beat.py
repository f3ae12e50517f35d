"""Schedules of celery beat as declarations: what it says in its own words, and what cannot be had here."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.db import connections

from django_mq.errors import ConfigurationError
from django_mq.periodic.decorator import Declaration, declaration_of
from django_mq.periodic.duty import now_of, rows
from django_mq.periodic.values import USUAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_mq.periodic.models import PeriodicMessage

#: The source of the rows of Celery's setting ``beat_schedule``.
BEAT = "beat"
#: The seconds of the periods of django-celery-beat.
PERIODS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}
#: All enabled and disabled entries of django-celery-beat, by its own tables: it need not be installed.
ENTRIES = """
SELECT task.name, task.task, task.args, task.kwargs, task.queue, task.exchange, task.routing_key, task.priority,
    task.expire_seconds, task.headers, task.one_off, task.start_time, task.expires, task.enabled,
    line.minute, line.hour, line.day_of_month, line.month_of_year, line.day_of_week,
    line.timezone, span.every, span.period, task.solar_id, task.clocked_id
FROM django_celery_beat_periodictask AS task
LEFT JOIN django_celery_beat_crontabschedule AS line ON line.id = task.crontab_id
LEFT JOIN django_celery_beat_intervalschedule AS span ON span.id = task.interval_id
ORDER BY task.name
"""


class BeatEntry(NamedTuple):
    """An entry of celery beat: a declaration, or the reason why it cannot be one."""

    name: str
    declaration: Declaration | None
    problem: str = ""
    is_paused: bool = False


def published_too(alias: str) -> list[str]:
    """Return the names of the rows that celery beat has published, too, in the last day."""
    dropped = rows(alias).filter(dropped_at__isnull=False).order_by("name")
    return [row.name for row in dropped if is_published_too(row)]


def is_published_too(row: PeriodicMessage) -> bool:
    """Whether celery beat has published this row, too, in the day before it was read."""
    return row.dropped_at is not None and row.dropped_at > now_of(row) - timedelta(days=1)


def cron_of(minute: str, hour: str, day: str, month: str, weekday: str) -> str:
    """Return the cron line of Celery's crontab. Raises ConfigurationError."""
    fields = ["".join(str(each).split()) for each in (minute, hour, day, month, weekday)]
    if not (fields[2].startswith("*") or fields[4].startswith("*")):
        raise ConfigurationError(
            "It names days of the month and of the week: celery beat waits for a day that is both, and a cron line"
            " for either. Look at the day in the task."
        )
    return " ".join(fields)


def found(name: str, values: Mapping[str, Any], *, is_paused: bool = False) -> BeatEntry:
    """Return an entry with these values, or with the reason why it cannot be."""
    try:
        return BeatEntry(name, declaration_of(name, {**USUAL, "kind": "celery", **values}), is_paused=is_paused)
    except ConfigurationError as error:
        return BeatEntry(name, None, str(error))


def imported(alias: str) -> Iterator[BeatEntry]:
    """Yield the entries of django-celery-beat in a database, but for Celery's own. Raises ConfigurationError."""
    connection = connections[alias]
    if "django_celery_beat_periodictask" not in connection.introspection.table_names():
        raise ConfigurationError(f"The database {alias!r} has no tables of django-celery-beat.")
    with connection.cursor() as cursor:
        cursor.execute(ENTRIES)
        rows = cursor.fetchall()
    for row in rows:
        if row[1] != "celery.backend_cleanup":
            yield _entry(row)


def _entry(row: Sequence[Any]) -> BeatEntry:
    name, task, args, kwargs, queue, exchange, routing_key, priority, seconds, headers, one_off = row[:11]
    start, end, enabled, line, (zone, every, period, solar, clocked) = *row[11:14], row[14:19], row[19:]
    if solar is not None:
        return BeatEntry(name, None, "It is a solar schedule, which is not possible here.")
    if clocked is not None or one_off:
        return BeatEntry(name, None, "It runs once: publish the task with an eta.")
    options = {"exchange": exchange, "routing_key": routing_key, "priority": priority, "expires": seconds}
    try:
        options["headers"] = json.loads(headers or "{}") or None
        values = {
            "target": task,
            "queue": queue or "",
            "args": json.loads(args or "[]"),
            "kwargs": json.loads(kwargs or "{}"),
            "options": {key: value for key, value in options.items() if value not in (None, "")},
            "start_at": _aware(start),
            "end_at": _aware(end),
        }
        if every is not None:
            values |= {"every_seconds": every * PERIODS[period]}
        else:
            values |= {"cron": cron_of(*line), "tz": str(zone)}
    except (ConfigurationError, ValueError) as error:
        return BeatEntry(name, None, str(error))
    return found(name, values, is_paused=not enabled)


def _aware(given: Any) -> datetime | None:
    """Return a time of a table, which is in UTC where the database has no time zones."""
    moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    if moment is not None and moment.utcoffset() is None:
        moment = moment.replace(tzinfo=UTC)
    return cast("datetime | None", moment)
