"""Queues on each kind of database, and workers that empty them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import consumer
from django_mq.delivery.consumer.handlers import forget, handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Queues of the tests, with their options.
QUEUES: dict[str, dict[str, Any]] = {
    "parts": {"backoff_seconds": 0.0, "max_attempts": 1},
    "dying": {"max_attempts": 1, "dead_letter_queue": "dead"},
    "dead": {},
    "few": {"max_messages": 1, "overflow": "drop"},
    "told": {},
}


@pytest.fixture
def alias(committed_database: str) -> str:
    store = shared_store(committed_database)
    for name in ("dead", *(name for name in QUEUES if name != "dead")):
        declare(store, name, QUEUES[name])
    return committed_database


@pytest.fixture
def work(alias: str) -> Iterator[Callable[..., list[Any]]]:
    """Return a function that lets a worker handle a queue, and returns what the queue ``told`` has got."""
    used = {"told"}

    def run(queue: str = "parts", handle: Callable[[Any], object] = lambda _: None) -> list[Any]:
        told: list[Any] = []
        for name, function in ((queue, handle), ("told", lambda message: told.append(message.body))):
            forget(name)
            used.add(name)
            consumer(name)(function)
            Worker([handler_of(name)], threads=1, using=alias).run(until_empty=True)
        return told

    yield run
    for name in used:
        forget(name)
