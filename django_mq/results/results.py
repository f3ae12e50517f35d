"""Results of tasks and groups: written, read, forgotten. All functions join the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import connections
from django.db.models import Q

from django_mq.results.models import ResultGroup, StoredResult
from django_mq.stores.clock import clock
from django_mq.stores.records import time_of
from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from django_mq.stores.sql.store import SQLStore

#: How many results one statement reads.
MANY: Final = 500
#: The columns that a result need not have.
OPTIONAL: Final = {
    "message_id": None,
    "traceback": None,
    "children": "",
    "group_id": "",
    "parent_id": "",
    "name": "",
    "args": "",
    "kwargs": "",
    "worker": "",
    "queue": "",
    "retries": None,
    "stamps": "",
    "done_at": None,
    "expires_at": None,
}


def store(over: SQLStore, **columns: Any) -> None:
    """Write the state and the result of a task, unless it has succeeded before. Raises StoreError."""
    over.results.store(**(OPTIONAL | columns))


class StoredColumns(NamedTuple):
    """What is stored of a task: the columns of the statement ``find_result``."""

    task_id: str
    message_id: Any
    status: str
    result: str
    content_type: str
    content_encoding: str
    traceback: str | None
    children: str
    group_id: str
    parent_id: str
    name: str
    args: str
    kwargs: str
    worker: str
    queue: str
    retries: int | None
    stamps: str
    done_at: datetime | None
    expires_at: datetime | None


def find(task_id: str, *, using: str) -> StoredColumns | None:
    """Return the result of a task; None if nothing is stored, or it has expired."""
    # Programs read one result after the other: Django's query takes three times as long as its statement.
    row = store_for(connections[using]).results.find(task_id, clock.now())
    if row is None:
        return None
    found = StoredColumns(*row)
    return found if found.done_at is None else found._replace(done_at=time_of(found.done_at))


def find_many(
    task_ids: Collection[str], states: Collection[str], *, using: str
) -> Iterator[StoredResult | StoredColumns]:
    """Yield the results of these tasks that are stored and in one of these states."""
    ids = list(task_ids)
    if len(ids) == 1:
        found = find(ids[0], using=using)
        if found is not None and found.status in states:
            yield found
        return
    rows = StoredResult.objects.using(using).filter(_kept(), status__in=states).order_by()
    for start in range(0, len(ids), MANY):
        yield from rows.filter(task_id__in=ids[start : start + MANY])


def forget(task_id: str, *, using: str) -> bool:
    """Delete the result of a task; return whether there was one."""
    return StoredResult.objects.using(using).filter(task_id=task_id).delete()[0] > 0


def save_group(*, using: str, **columns: Any) -> None:
    """Write the members of a group, in place of what is there."""
    ResultGroup.objects.using(using).update_or_create(group_id=columns.pop("group_id"), defaults=columns)


def find_group(group_id: str, *, using: str) -> ResultGroup | None:
    """Return the members of a group; None if it was not saved, or has expired."""
    return ResultGroup.objects.using(using).filter(_kept(), group_id=group_id).first()


def delete_group(group_id: str, *, using: str) -> None:
    """Delete the members of a group. The results of the members stay."""
    ResultGroup.objects.using(using).filter(group_id=group_id).delete()


def _kept() -> Q:
    return Q(expires_at=None) | Q(expires_at__gt=clock.now())
