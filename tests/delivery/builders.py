"""What the tests of delivery say in one word: a claimed message, a handler, a worker that runs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django_mq.delivery.consumer.handlers import Handler, Way
from django_mq.delivery.consumer.worker import Worker
from django_mq.engine.decisions.retries import Retries
from django_mq.engine.options import QueueOptions
from django_mq.stores.records import Claimed, QueueRecord
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ids = count(1)


def a_claimed(**given: Any) -> Claimed:
    """A claimed message; each has its own row id."""
    number = next(_ids)
    values: dict[str, Any] = {
        "id": number,
        "claim": number,
        "queue_name": "orders",
        "level": given.get("priority", 4),
        "place": 0,
        "priority": 4,
        "attempts": 0,
        "redelivered": False,
        "suspect": False,
        "expired": False,
        "message_id": uuid4(),
        "type": "",
        "correlation_id": None,
        "group_key": None,
        "published_at": datetime.now(UTC),
        "deliver_at": None,
        "expires_at": None,
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "headers": "{}",
        "properties": None,
        "told_to": None,
        "body": b"{}",
    }
    return Claimed(**values | given)


def a_policy(**given: Any) -> QueueRecord:
    """A queue's record, the defaults where nothing is given."""
    defaults = QueueOptions()
    values: dict[str, Any] = {"id": 1, "name": "orders", "closed": False, "paused": False}
    for name in [each.name for each in fields(QueueRecord) if each.init]:
        values.setdefault(name, getattr(defaults, name, None))
    return QueueRecord(**values | given)


def a_handler(
    function: Callable[[Any], Any] = lambda _: None,
    *,
    queue: str = "orders",
    credit: int = 20,
    credit_bytes: int | None = None,
    time_limit_seconds: float | None = None,
    soft_time_limit_seconds: float | None = None,
    transactional: bool = False,
    priority: int = 0,
    selector: str = "",
    way: Way = Way.THREADS,
    **retries: Any,
) -> Handler:
    """A handler that is not registered."""
    return Handler(
        queue=queue,
        function=function,
        credit=credit,
        credit_bytes=credit_bytes,
        time_limit_seconds=time_limit_seconds,
        soft_time_limit_seconds=soft_time_limit_seconds,
        transactional=transactional,
        priority=priority,
        selector=selector,
        way=way,
        retries=Retries(**retries) if retries else None,
    )


@contextmanager
def running(*handlers: Handler, using: str, threads: int = 2, name: str = "") -> Iterator[Worker]:
    """A worker that works in a thread of its own, and is stopped in order."""
    worker = Worker(handlers, threads=threads, using=using, name=name)
    thread = threading.Thread(target=worker.run, name="worker under test")
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the worker did not stop"
