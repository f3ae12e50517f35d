"""Results of tasks and groups: written, read, forgotten. All functions join the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

from django_mq.results.models import ResultGroup, StoredResult
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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


def find(task_id: str, *, using: str) -> StoredResult | None:
    """Return the result of a task; None if nothing is stored, or it has expired."""
    return StoredResult.objects.using(using).filter(_kept(), task_id=task_id).first()


def find_many(task_ids: Collection[str], *, using: str, **only: Any) -> Iterator[StoredResult]:
    """Yield the results of these tasks that are stored."""
    ids = list(task_ids)
    for start in range(0, len(ids), MANY):
        chosen = StoredResult.objects.using(using).filter(_kept(), task_id__in=ids[start : start + MANY], **only)
        yield from chosen.order_by()


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
