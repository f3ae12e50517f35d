"""Celery's setting ``beat_schedule``, read by workers as rows of periodic messages: no beat has to run.

Where celery beat runs all the same, what it publishes says which entry it is of, so that it can be dropped.
"""

from __future__ import annotations

import logging
import math
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_mq.errors import ConfigurationError
from django_mq.integrations.celery.results import end_chords
from django_mq.integrations.celery.url import BEAT_ENTRY, SCHEME
from django_mq.periodic.beat import BEAT, BeatEntry, cron_of, found
from django_mq.periodic.declared import follow, source_of
from django_mq.periodic.values import OPTIONS
from django_mq.seams.extension import Duty, Extension

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from celery import Celery
    from celery.schedules import crontab

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.celery")


def entries(app: Celery) -> Iterator[BeatEntry]:
    """Yield the entries of ``beat_schedule``, each as a declaration or with the reason why it cannot be one."""
    for name, entry in (app.conf.beat_schedule or {}).items():
        try:
            yield found(str(name), _values(app, entry))
        except ConfigurationError as error:
            yield BeatEntry(str(name), None, str(error))


def _values(app: Celery, entry: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(entry.get("options") or {})
    queue = options.pop("queue", None) or ""
    if unknown := options.keys() - OPTIONS["celery"]:
        raise ConfigurationError(f"Its options have {min(unknown)!r}, which cannot be kept in a row.")
    return {
        "target": str(entry["task"]),
        "queue": str(queue),
        "args": list(entry.get("args") or ()),
        "kwargs": dict(entry.get("kwargs") or {}),
        "options": options,
    } | _times(app, entry["schedule"])


def _times(app: Celery, given: Any) -> dict[str, Any]:
    from celery.schedules import crontab, schedule, solar  # noqa: PLC0415 - as below

    if isinstance(given, solar):
        raise ConfigurationError("It is a solar schedule, which is not possible here.")
    if isinstance(given, crontab):
        # What it is pickled with are the texts that it was given.
        return {"cron": cron_of(*_fields(given)), "tz": str(app.conf.timezone or "UTC")}
    if isinstance(given, schedule):
        given = vars(given)["run_every"]
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if not isinstance(given, int | float):
        raise ConfigurationError(f"Its schedule is of the class {type(given).__name__}, which is not known here.")
    return {"every_seconds": float(given)}


def _fields(given: crontab) -> tuple[str, str, str, str, str]:
    reduced: Any = given.__reduce__()
    minute, hour, weekday, day, month = reduced[1]
    return minute, hour, day, month, weekday


def connect() -> None:
    """Let celery beat name its entries, in a process that has imported Celery."""
    if "celery" in sys.modules:
        from celery.signals import beat_init  # noqa: PLC0415 - as below

        beat_init.connect(name_entries)


def name_entries(sender: Any, **_: Any) -> None:
    """Name each entry in the headers of its messages, when celery beat begins."""
    if not is_ours(sender.app):
        return
    for entry in sender.scheduler.schedule.values():
        headers = (entry.options or {}).get("headers") or {}
        entry.options = {**(entry.options or {}), "headers": {**headers, BEAT_ENTRY: entry.name}}


def is_ours(app: Celery) -> bool:
    """Whether the broker is a database of django_mq."""
    return str(app.conf.broker_url or "").startswith(f"{SCHEME}:")


def declare_beat(store: Store, _limit: int) -> int:
    """Let rows follow ``beat_schedule``, if the broker is this database; return how many were changed."""
    if "celery" not in sys.modules:
        return 0
    from celery import current_app  # noqa: PLC0415 - not in programs without Celery

    if not store.features.durable or not is_ours(current_app):
        return 0
    declared = []
    for entry in entries(current_app):
        if entry.declaration is None:
            logger.error("The entry %r of beat_schedule is left to celery beat. %s", entry.name, entry.problem)
        else:
            declared.append(entry.declaration)
    return follow(store.alias, source_of(BEAT), declared)


EXTENSION = Extension(
    name="celery",
    duties=(
        Duty(name="declare_beat", run=declare_beat, interval_seconds=math.inf),
        Duty(name="end_chords", run=end_chords, limit=20, interval_seconds=30),
    ),
)
