"""A database with the queue ``orders``, and handlers of one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.handlers import consumer
from tests.conftest import every_database, hold_queues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

QUEUES = {"orders": {"backoff_seconds": 0.0}, "mails": {}}


@pytest.fixture(params=every_database())
def alias(request: pytest.FixtureRequest, settings: Settings) -> str:
    """The database of the queues; all is rolled back afterwards."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": QUEUES}
    return hold_queues(settings, request.param)


@pytest.fixture
def handle(alias: str) -> Iterator[Callable[..., None]]:
    """Register a durable handler of ``orders`` for this test, in place of the one before."""

    def register(function: Callable[[Any], Any], **options: Any) -> None:
        handlers.forget("orders")
        consumer("orders", durable=True, **options)(function)

    yield register
    handlers.forget("orders")
