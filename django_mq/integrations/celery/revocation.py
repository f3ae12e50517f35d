"""Revoking a task removes its waiting messages from the database.

Celery's workers remember revoked tasks in memory, for three hours: a worker that starts later runs them. They
remember revoked stamps in memory, too. A stamp may be that of any message, so its revocation is written, and each
worker reads it when it connects.

No worker receives a message that was removed. So the worker that removes it does what Celery does when it
receives a revoked task: it sends ``task_revoked`` and ``task-revoked``, and stores the result.
"""

from __future__ import annotations

import json
import logging
from functools import wraps
from typing import TYPE_CHECKING, Any

from celery.exceptions import NotRegistered
from celery.worker.control import Panel
from celery.worker.state import revoked_stamps
from celery.worker.strategy import proto1_to_proto2  # type: ignore[attr-defined]  # the stubs leave it out
from kombu.message import Message
from kombu.serialization import prepare_accept_content
from kombu.utils.functional import maybe_list
from kombu.utils.imports import symbol_by_name

from django_mq.delivery.codecs import as_published, decode_headers
from django_mq.delivery.consumer.handlers import TASK
from django_mq.errors import StoreError
from django_mq.integrations.celery.attempts import DELIVER
from django_mq.integrations.celery.message import decode_properties
from django_mq.integrations.celery.transient_queues import LONGEST
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed

logger = logging.getLogger("django_mq.celery")
COMMAND = "revoke"
STAMPS_COMMAND = "revoke_by_stamped_headers"
#: Revoked stamps are kept where other things expire by themselves: as bindings of an exchange of their own.
STAMPS = "amq.revoked-stamps"
#: How long the revocation of a stamp is kept, in seconds.
STAMPS_SECONDS = 30 * 86_400.0


def install(alias: str) -> None:
    """Make the remote control commands that revoke tasks also act on the database of an alias."""

    def remove(state: Any, task_id: Any) -> None:
        for waiting in remove_waiting(alias, [str(one) for one in maybe_list(task_id) or ()]):
            _announce(waiting, state)

    extend(COMMAND, "task_id", remove)
    extend(STAMPS_COMMAND, "headers", lambda _, headers: keep_stamps(alias, headers))


def extend(name: str, argument: str, then: Callable[[Any, Any], Mapping[str, str] | None]) -> None:
    """Have a command of this process call ``then`` afterwards, with the state and the command's first argument.

    What ``then`` returns is the answer. A command that was refused calls nothing.
    """
    installed = Panel.data[name]
    command = getattr(installed, "__wrapped__", installed)

    @wraps(command)
    def extended(state: Any, *args: Any, **options: Any) -> Any:
        answer = command(state, *args, **options)
        if "error" in answer:
            return answer
        return then(state, args[0] if args else options[argument]) or answer

    Panel.data[name] = extended


def keep_stamps(alias: str, headers: Mapping[str, Any] | list[str]) -> None:
    """Write the revoked stamps of these headers, for workers that start later."""
    named = [text.split("=")[0] for text in headers] if isinstance(headers, list) else headers
    store = private_store(alias)
    try:
        for header in named:
            for stamp in maybe_list(revoked_stamps.get(header)) or ():
                pattern = json.dumps([header, stamp])
                if len(pattern) > LONGEST:
                    logger.warning("Revoked until the worker restarts: the stamp %s is too long", pattern)
                    continue
                store.volatile.bind(
                    exchange=STAMPS, exchange_type="direct", pattern=pattern, queue=STAMPS, seconds=STAMPS_SECONDS
                )
    except StoreError as error:
        logger.warning("Revoked until the worker restarts: the stamps were not written: %s", error)
    finally:
        store.close()


def recall_stamps(store: Store) -> None:
    """Let this worker know the revoked stamps. Raises StoreError."""
    for pattern, _ in store.volatile.bindings(STAMPS):
        header, stamp = json.loads(pattern)
        known = maybe_list(revoked_stamps.get(header)) or []
        if stamp not in known:
            revoked_stamps[header] = [*known, stamp]  # type: ignore[assignment] # as the command does


def remove_waiting(alias: str, task_ids: list[str]) -> list[Browsed]:
    """Cancel the waiting messages of tasks and handlers, by Celery's ids; return those that were removed.

    It uses a connection of its own: the command may run in a green thread beside the worker's loop.
    """
    store = private_store(alias)
    went = []
    try:
        for waiting in store.browser.correlated(task_ids):
            # One by one: every worker hears the command, and one of them removes the message.
            if store.operations.cancel([waiting.id]):
                went.append(waiting)  # noqa: PERF401 - if the next one fails, these were removed
    except StoreError as error:
        logger.warning("Revoked, but the waiting messages were not removed: %s", error)
    finally:
        store.close()
    return went


def _announce(waiting: Browsed, state: Any) -> None:
    """Let Celery report and record that a task was revoked, as if this worker had received its message."""
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


def _received(waiting: Browsed, app: Any) -> tuple[Message, dict[str, Any]]:
    """Return what Celery would have received, and what it would have made of a message of its first protocol."""
    headers = decode_headers(waiting.headers)
    stored, content_encoding = as_published(waiting.body, waiting.content_encoding)
    body = stored, waiting.content_type, content_encoding
    if TASK in headers:
        return _message(waiting, headers, body, app), {}
    if waiting.properties is None:  # a handler's message: its run has other headers, and no arguments
        task_id = str(waiting.message_id)
        shown = f"({waiting.queue_name!r}, {task_id!r})"
        headers = {"task": DELIVER, "id": task_id, "root_id": task_id, "argsrepr": shown}
        return _message(waiting, headers, ("[[], {}, {}]", "application/json", "utf-8"), app), {}
    message = _message(waiting, headers, body, app)
    body, headers, decoded, utc = proto1_to_proto2(message, message.payload)
    message.properties["correlation_id"] = headers["id"]
    return message, {"body": body, "headers": headers, "decoded": decoded, "utc": utc}


def _message(waiting: Browsed, headers: dict[str, Any], content: Any, app: Any) -> Message:
    properties = decode_properties(waiting.properties)
    info = {"exchange": "", "routing_key": waiting.queue_name, **properties.pop("delivery_info", {})}
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
