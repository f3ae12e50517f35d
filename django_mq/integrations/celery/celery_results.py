"""Takes over what django-celery-results has stored, by its own tables: it need not be installed.

Only what has ended is copied, and only what is not here yet: a second run continues where the first one stopped.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from celery import current_app, states
from django.apps.registry import Apps
from django.db import connections, models, transaction
from django.db.models import QuerySet

from django_mq.conf import aware
from django_mq.errors import ConfigurationError
from django_mq.results.models import ID_LENGTH, Chord, ChordMember, ResultGroup, StoredResult
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

#: How many rows are copied in one transaction.
CHUNK: Final = 500
#: A registry of its own: Django neither migrates these models nor checks them.
_TABLES: Final = Apps()


class CeleryTaskRow(models.Model):
    """The columns of the results of django-celery-results that are read."""

    id = models.BigIntegerField(primary_key=True)
    task_id = models.CharField(max_length=255)
    task_name = models.CharField(max_length=255, null=True)  # noqa: DJ001 - as in that package
    task_args = models.TextField(null=True)  # noqa: DJ001
    task_kwargs = models.TextField(null=True)  # noqa: DJ001
    status = models.CharField(max_length=50)
    worker = models.CharField(max_length=100, null=True)  # noqa: DJ001
    content_type = models.CharField(max_length=128)
    content_encoding = models.CharField(max_length=64)
    result = models.TextField(null=True)  # noqa: DJ001
    date_done = models.DateTimeField()  # noqa: TID251 - a table of the site
    traceback = models.TextField(null=True)  # noqa: DJ001
    meta = models.TextField(null=True)  # noqa: DJ001

    class Meta:
        apps = _TABLES
        app_label = "django_celery_results"
        db_table = "django_celery_results_taskresult"
        managed = False

    def __str__(self) -> str:
        return self.task_id


class CeleryGroupRow(models.Model):
    """The columns of the groups of django-celery-results that are read."""

    id = models.BigIntegerField(primary_key=True)
    group_id = models.CharField(max_length=255)
    content_type = models.CharField(max_length=128)
    content_encoding = models.CharField(max_length=64)
    result = models.TextField(null=True)  # noqa: DJ001
    date_done = models.DateTimeField()  # noqa: TID251 - a table of the site

    class Meta:
        apps = _TABLES
        app_label = "django_celery_results"
        db_table = "django_celery_results_groupresult"
        managed = False

    def __str__(self) -> str:
        return self.group_id


class CeleryChordRow(models.Model):
    """The columns of the running chords of django-celery-results that are read."""

    id = models.BigIntegerField(primary_key=True)
    group_id = models.CharField(max_length=255)
    sub_tasks = models.TextField()
    count = models.IntegerField()

    class Meta:
        apps = _TABLES
        app_label = "django_celery_results"
        db_table = "django_celery_results_chordcounter"
        managed = False

    def __str__(self) -> str:
        return self.group_id


@dataclass(slots=True)
class Imported:
    """How many rows of a table were copied, were here already, have expired, and were left for a reason."""

    imported: int = 0
    known: int = 0
    expired: int = 0
    #: Why some were left, by their ids.
    left: dict[str, str] = field(default_factory=dict)

    #: The most rows of which the reason is told.
    MOST_TOLD: ClassVar[int] = 100
    left_in_all: int = 0

    def leave(self, name: str, reason: str) -> None:
        self.left_in_all += 1
        if len(self.left) < self.MOST_TOLD:
            self.left[name] = reason

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def import_results(alias: str, *, keep_days: float | None, dry_run: bool) -> dict[str, Imported]:
    """Copy results, groups and running chords; return what was done with each table. Raises ConfigurationError.

    ``keep_days`` is how long a result is kept after its end; None: as Celery's ``result_expires`` says.
    """
    tables = {model._meta.db_table for model in (CeleryTaskRow, CeleryGroupRow, CeleryChordRow)}
    missing = tables - set(connections[alias].introspection.table_names())
    if CeleryTaskRow._meta.db_table in missing:
        raise ConfigurationError(f"The database {alias!r} has no tables of django-celery-results.")
    lifetime = _lifetime(keep_days)
    done = {"results": Imported(), "groups": Imported(), "chords": Imported()}
    steps: list[tuple[type[Any], str, Callable[..., None]]] = [
        (CeleryTaskRow, "results", _copy_results),
        (CeleryGroupRow, "groups", _copy_groups),
        (CeleryChordRow, "chords", _copy_chords),
    ]
    for model, name, copy in steps:
        for rows in () if model._meta.db_table in missing else _chunks(model, alias):
            with transaction.atomic(using=alias):
                copy(rows, done[name], alias=alias, lifetime=lifetime, dry_run=dry_run)
    return done


def _lifetime(keep_days: float | None) -> timedelta | None:
    if keep_days is not None:
        return timedelta(days=keep_days)
    expires = current_app.conf.result_expires
    if expires is None or isinstance(expires, timedelta):
        return expires or None
    return timedelta(seconds=float(expires)) if expires else None


def _chunks(model: type[Any], alias: str) -> Iterator[list[Any]]:
    """Yield the rows of a table in the order of their keys."""
    last = 0
    every: QuerySet[Any] = QuerySet(model, using=alias)
    while rows := list(every.filter(pk__gt=last).order_by("pk")[:CHUNK]):
        yield rows
        last = rows[-1].pk


def _expiry(done_at: datetime, lifetime: timedelta | None) -> datetime | None:
    return None if lifetime is None else aware(done_at) + lifetime


def _fresh(
    rows: Sequence[Any], key: str, model: type[Any], done: Imported, alias: str
) -> Iterator[tuple[Any, Any]]:
    """Yield the rows that are not here yet, each with its id."""
    by_id = {getattr(row, key): row for row in rows}
    known = set(model.objects.using(alias).filter(**{f"{key}__in": list(by_id)}).values_list(key, flat=True))
    done.known += len(known)
    yield from ((each, row) for each, row in by_id.items() if each not in known)


def _write(model: type[Any], new: list[Any], done: Imported, *, alias: str, dry_run: bool) -> None:
    if not dry_run:
        # A worker may write the same result at this moment: then its result stays.
        model.objects.using(alias).bulk_create(new, ignore_conflicts=True)
    done.imported += len(new)


def _copy_results(
    rows: Sequence[CeleryTaskRow], done: Imported, *, alias: str, lifetime: timedelta | None, dry_run: bool
) -> None:
    new = []
    for task_id, row in _fresh(rows, "task_id", StoredResult, done, alias):
        expires_at = _expiry(row.date_done, lifetime)
        if row.status not in states.READY_STATES:
            done.leave(task_id, f"It is {row.status}: import it again when the task has ended.")
        elif expires_at is not None and expires_at <= clock.now():
            done.expired += 1
        else:
            new.append(_result(row, expires_at))
    _write(StoredResult, new, done, alias=alias, dry_run=dry_run)


def _result(row: CeleryTaskRow, expires_at: datetime | None) -> StoredResult:
    return StoredResult(
        task_id=row.task_id,
        status=row.status,
        result=row.result or "",
        content_type=row.content_type,
        content_encoding=row.content_encoding,
        traceback=row.traceback,
        children=_children(row),
        name=row.task_name or "",
        args=row.task_args or "",
        kwargs=row.task_kwargs or "",
        worker=row.worker or "",
        done_at=aware(row.date_done),
        expires_at=expires_at,
    )


def _children(row: CeleryTaskRow) -> str:
    """Return the children of a task; none if they are not JSON, which alone is read here."""
    if not row.meta or row.content_type != "application/json":
        return ""
    try:
        children = json.loads(row.meta).get("children")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return json.dumps(children) if children else ""


def _copy_groups(
    rows: Sequence[CeleryGroupRow], done: Imported, *, alias: str, lifetime: timedelta | None, dry_run: bool
) -> None:
    new = []
    for group_id, row in _fresh(rows, "group_id", ResultGroup, done, alias):
        expires_at = _expiry(row.date_done, lifetime)
        if row.content_type != "application/json":
            done.leave(group_id, f"It is {row.content_type}; groups are imported from JSON only.")
        elif expires_at is not None and expires_at <= clock.now():
            done.expired += 1
        else:
            members = f'{{"result": {row.result or "null"}}}'
            stored = {"content_type": row.content_type, "content_encoding": row.content_encoding}
            new.append(ResultGroup(group_id=group_id, members=members, expires_at=expires_at, **stored))
    _write(ResultGroup, new, done, alias=alias, dry_run=dry_run)


def _copy_chords(
    rows: Sequence[CeleryChordRow], done: Imported, *, alias: str, lifetime: timedelta | None, dry_run: bool
) -> None:
    """Copy chords that wait: with the members that have ended, for the others to be counted here."""
    for group_id, row in _fresh(rows, "group_id", Chord, done, alias):
        task_ids = _members_of(row)
        if task_ids is None:
            done.leave(group_id, "Its members cannot be read, or are groups: let the old workers end it.")
            continue
        ended = _ended(task_ids, alias)
        if len(task_ids) - len(ended) != row.count:
            words = f"{row.count} of {len(task_ids)} members are to end, and {len(ended)} results are stored"
            done.leave(group_id, f"{words}: let the old workers end it.")
            continue
        if not dry_run:
            _write_chord(group_id, task_ids, ended, _expiry(clock.now(), lifetime), alias)
        done.imported += 1


def _members_of(row: CeleryChordRow) -> list[str] | None:
    """Return the ids of the tasks of a chord; None if one of them is a group, or they cannot be read."""
    try:
        found = [(str(head[0])[:ID_LENGTH], children) for head, children in json.loads(row.sub_tasks)]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return None if any(children is not None for _, children in found) else [task_id for task_id, _ in found]


def _ended(task_ids: list[str], alias: str) -> dict[str, CeleryTaskRow]:
    found: dict[str, CeleryTaskRow] = {}
    rows: QuerySet[CeleryTaskRow] = QuerySet(CeleryTaskRow, using=alias)
    for start in range(0, len(task_ids), CHUNK):
        chosen = rows.filter(task_id__in=task_ids[start : start + CHUNK])
        found |= {row.task_id: row for row in chosen if row.status in states.READY_STATES}
    return found


def _write_chord(
    group_id: str, task_ids: list[str], ended: dict[str, CeleryTaskRow], expires_at: datetime | None, alias: str
) -> None:
    failed = sum(row.status in states.PROPAGATE_STATES for row in ended.values())
    counts = {"size": len(task_ids), "counted": len(ended), "failed": failed}
    Chord.objects.using(alias).create(group_id=group_id, expires_at=expires_at, **counts)
    members = [
        ChordMember(
            group_id=group_id,
            task_id=task_id,
            position=position,
            status=row.status,
            result=row.result or "",
            content_type=row.content_type,
            content_encoding=row.content_encoding,
            expires_at=expires_at,
        )
        for position, task_id in enumerate(task_ids)
        if (row := ended.get(task_id)) is not None
    ]
    ChordMember.objects.using(alias).bulk_create(members, batch_size=CHUNK)
