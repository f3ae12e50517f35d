"""The id of a Celery task stands in its message's headers: a copy of that message is another task.

Two tasks of one id would overwrite each other's result, and who revokes one would revoke both. A copy stands where
the original stood: its parent, its root if that is another task, its group and what follows it stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django_mq.delivery.consumer.handlers import is_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.delivery.publisher import OutgoingMessage

#: Headers of a task's id, and of the id of the task that began it all.
ID, ROOT = "id", "root_id"


def without_task_id(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers, those of a task without its id, as the task's and as the root's."""
    if not is_task(headers) or ID not in headers:
        return dict(headers)
    own = {ID, ROOT} if headers.get(ROOT) == headers[ID] else {ID}
    return {name: value for name, value in headers.items() if name not in own}


def with_task_id(outgoing: OutgoingMessage) -> OutgoingMessage:
    """Return the message; if it is a task's, give it a new task id unless its headers name one."""
    headers = outgoing.headers or {}
    if not is_task(headers):
        return outgoing
    task_id = headers.get(ID) or str(uuid4())
    named = {**headers, ID: task_id, ROOT: headers.get(ROOT) or task_id}
    # By its correlation id a task is found when it is revoked, and answered.
    return replace(outgoing, headers=named, correlation_id=outgoing.correlation_id or str(task_id))
