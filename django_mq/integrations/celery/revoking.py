"""Revoking a task takes its waiting messages out of the database.

Celery's workers remember what was revoked, in memory and for three hours: a worker that
starts later, or the message of a task that is due tomorrow, would know nothing of it.

No worker receives a message that was removed. So the worker that removes it does what Celery does
when it receives a revoked task: it sends ``task_revoked`` and ``task-revoked``, and stores the result.
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any

from celery.exceptions import NotRegistered
from celery.worker.control import Panel
from celery.worker.strategy import proto1_to_proto2  # type: ignore[attr-defined]  # the stubs leave it out
from kombu.message import Message
from kombu.serialization import prepare_accept_content
from kombu.utils.functional import maybe_list
from kombu.utils.imports import symbol_by_name

from django_mq.delivery.codecs import decode_headers
from django_mq.delivery.handlers import TASK
from django_mq.errors import StoreError
from django_mq.integrations.celery.message import decode_properties
from django_mq.integrations.celery.native import DELIVER
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.records import WaitingMessage

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
        for waiting in remove_waiting(alias, [str(one) for one in maybe_list(task_id) or ()]):
            _announce(waiting, state)
        return answer

    return revoke


def remove_waiting(alias: str, task_ids: list[str]) -> list[WaitingMessage]:
    """Remove the waiting messages of tasks, and of handlers, by the ids that Celery knows; return those that went.

    The history says they were cancelled. On a connection of its own: the command may run in a green
    thread beside the worker's loop.
    """
    store = private_store(alias)
    went = []
    try:
        for waiting in store.correlated(task_ids):
            # One by one: every worker hears the command, and one of them removes the message.
            if store.cancel([waiting.id]):
                went.append(waiting)  # noqa: PERF401 - these went, even if the next one does not
    except StoreError as error:
        logger.warning("Revoked, but the waiting messages were not removed: %s", error)
    finally:
        store.close()
    return went


def _announce(waiting: WaitingMessage, state: Any) -> None:
    """Have Celery say and record that a task was revoked, as if this worker had received its message."""
    try:
        message, given = _received(waiting, state.app)
        task = state.app.tasks[given.get("headers", message.headers)["task"]]
        request = symbol_by_name(task.Request)(
            message,
            **given,
            hostname=state.hostname,
            eventer=state.consumer.event_dispatcher,
            app=state.app,
            task=task,
        )
        request.revoked()
    except NotRegistered as unknown:
        logger.warning("Message %s was revoked and removed; no signal was sent: %s", waiting.message_id, unknown)
    except Exception:  # the message may be corrupt and the result backend away; the other messages wait
        logger.exception("Message %s was revoked and removed; this was not reported", waiting.message_id)


def _received(waiting: WaitingMessage, app: Any) -> tuple[Message, dict[str, Any]]:
    """Return what Celery would have received, and what it would have made of a message of its first protocol."""
    headers = decode_headers(waiting.headers)
    if TASK in headers or waiting.properties is None:
        return _message(waiting, _headers(waiting), app), {}
    message = _message(waiting, headers, app)
    body, headers, decoded, utc = proto1_to_proto2(message, message.payload)
    message.properties["correlation_id"] = headers["id"]
    return message, {"body": body, "headers": headers, "decoded": decoded, "utc": utc}


def _headers(waiting: WaitingMessage) -> dict[str, Any]:
    """Return the headers of a task's message; those of a handler's are made as for a run of the handler."""
    headers = decode_headers(waiting.headers)
    if TASK in headers:
        return headers
    task_id = str(waiting.message_id)
    shown = f"({waiting.queue_name!r}, {task_id!r})"
    return {"task": DELIVER, "id": task_id, "root_id": task_id, "argsrepr": shown}


def _message(waiting: WaitingMessage, headers: dict[str, Any], app: Any) -> Message:
    """Return what Celery would have received. A handler's message is no task's: it has no arguments there."""
    properties = decode_properties(waiting.properties)
    info = {"exchange": "", "routing_key": waiting.queue_name, **properties.pop("delivery_info", {})}
    content: Any = (waiting.body, waiting.content_type, waiting.content_encoding)
    if headers.get(TASK) == DELIVER:
        content = ("[[], {}, {}]", "application/json", "utf-8")
    body, content_type, content_encoding = content
    return Message(
        body=body,
        content_type=content_type,
        content_encoding=content_encoding,
        headers=headers,
        properties=properties | {"correlation_id": headers.get("id")},
        delivery_info=info,
        accept=prepare_accept_content(app.conf.accept_content),
    )
