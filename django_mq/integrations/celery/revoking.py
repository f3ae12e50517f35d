"""Revoking a task takes its waiting messages out of the database.

Celery's workers remember what was revoked, in memory and for three hours: a worker that
starts later, or the message of a task that is due tomorrow, would know nothing of it.
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any

from celery.worker.control import Panel
from kombu.utils.functional import maybe_list

from django_mq.errors import StoreError
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("django_mq.celery")
COMMAND = "revoke"


def install(alias: str) -> None:
    """Have the remote control command ``revoke`` of this process also look into the database of an alias."""
    command = Panel.data[COMMAND]
    Panel.data[COMMAND] = _also_removing(getattr(command, "__wrapped__", command), alias)


def _also_removing(command: Callable[..., Any], alias: str) -> Callable[..., Any]:
    @wraps(command)
    def revoke(state: Any, task_id: Any, *args: Any, **options: Any) -> Any:
        answer = command(state, task_id, *args, **options)
        remove_waiting(alias, [str(one) for one in maybe_list(task_id) or ()])
        return answer

    return revoke


def remove_waiting(alias: str, task_ids: list[str]) -> int:
    """Remove the waiting messages of tasks, and of handlers, by the ids that Celery knows; return how many went.

    The history says they were cancelled. On a connection of its own: the command may run in a green
    thread beside the worker's loop.
    """
    store = private_store(alias)
    try:
        return store.cancel(store.correlated(task_ids))
    except StoreError as error:
        logger.warning("Revoked, but the waiting messages were not removed: %s", error)
        return 0
    finally:
        store.close()
