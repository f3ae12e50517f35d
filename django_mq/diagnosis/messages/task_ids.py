"""The id of a Celery task in the headers of its message. A copy of the message is another task and needs its own.

Two tasks with one id overwrite each other's result, and to revoke one revokes both. The copy keeps the parent, the
group and the callbacks of the original, and its root if that is another task.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django_mq.delivery.consumer.handlers import is_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.delivery.publisher import OutgoingMessage

#: The headers for the id of the task, and for the id of the first task of its workflow.
ID, ROOT = "id", "root_id"


def without_task_id(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers without the id of the task."""
    if not is_task(headers) or ID not in headers:
        return dict(headers)
    own = {ID, ROOT} if headers.get(ROOT) == headers[ID] else {ID}
    return {name: value for name, value in headers.items() if name not in own}


def with_task_id(outgoing: OutgoingMessage) -> OutgoingMessage:
    """Return the message. If it is a task without an id, give it one."""
    headers = outgoing.headers or {}
    if not is_task(headers):
        return outgoing
    task_id = headers.get(ID) or str(uuid4())
    named = {**headers, ID: task_id, ROOT: headers.get(ROOT) or task_id}
    # Celery finds a task by its correlation id.
    return replace(outgoing, headers=named, correlation_id=outgoing.correlation_id or str(task_id))
