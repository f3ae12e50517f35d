"""The priorities of consumers, and whether a task was published with a priority at all.

Kombu's producer turns "none given" into 0. That is the most urgent priority of its Redis transport and so
of ``priority_order=redis``; in the usual order it is the least urgent one, where django_mq means 4.
Celery's signal, sent by the same thread just before, still knows what the caller said.
"""

from __future__ import annotations

import threading
from typing import Any

from celery import current_task, signals
from kombu.exceptions import ChannelError

from django_mq.delivery.handlers import PRIORITIES
from django_mq.integrations.celery.message import UNSAID


class _Announced(threading.local):
    """The publish that Celery announced last in this thread."""

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.properties: dict[str, Any] = {}


_announced = _Announced()


def _announce(headers: dict[str, Any], properties: dict[str, Any], **_: Any) -> None:
    _announced.task_id, _announced.properties = headers.get("id"), properties


signals.before_task_publish.connect(_announce, dispatch_uid="django_mq.priorities")


def urgency(said: Any, *, redis_order: bool = False) -> int:
    """Return 0 to 9, 9 first, clamped as AMQP brokers do.

    Without a priority it is 4, and in Redis's order 9, as with Kombu's transport.
    """
    unsaid = 9 if redis_order else 4
    if said is None:
        return unsaid
    try:
        value = max(0, min(9, int(said)))
    except (TypeError, ValueError, OverflowError):
        return unsaid
    return 9 - value if redis_order else value


def given(priority: int | None, headers: dict[str, Any] | None) -> int | None:
    """Return the priority the caller gave, None if he gave none; a plain Kombu producer's 0 stays 0."""
    task_id, properties = _announced.task_id, _announced.properties
    _announced.task_id, _announced.properties = None, {}
    if priority == 0 and task_id is not None and task_id == (headers or {}).get("id"):
        said: int | None = properties.get("priority")
        return None if _may_be_inherited(headers) and _is_inherited(task_id) else said
    return priority


def _may_be_inherited(headers: dict[str, Any] | None) -> bool:
    """Whether a running task publishes this, or itself: asked first, because to find none running takes long."""
    return bool(headers and (headers.get("parent_id") or headers.get("retries")))


def _is_inherited(task_id: str) -> bool:
    """Whether a priority of 0 is only what the running task was shown, to whom none had been given."""
    if not current_task or UNSAID not in (current_task.request.properties or {}):
        return False
    own_retry = task_id == current_task.request.id
    return own_retry or bool(current_task.app.conf.task_inherit_parent_priority)


def consumer_priority(arguments: dict[str, Any] | None) -> int:
    """Return RabbitMQ's ``x-priority`` of a consumer, 0 where there is none. Raises ChannelError."""
    priority = (arguments or {}).get("x-priority", 0)
    if isinstance(priority, int) and abs(priority) <= PRIORITIES:
        return priority
    raise ChannelError(f"x-priority is {priority!r}; use a whole number.", (60, 20), "Channel.basic_consume", 406)
