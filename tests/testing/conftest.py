"""The fixture ``mq``, a database in both kinds of tests, and handlers of one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.handlers import consumer
from tests.conftest import every_database, hold_queues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

#: MariaDB does nothing of its own where rows are committed.
BOTH_KINDS = [
    pytest.param(*given.values, id=f"{given.id}-{kind}", marks=given.marks)
    for kind, is_committed in {"rolled back": False, "committed": True}.items()
    for given in every_database(transaction=is_committed)
    if not (is_committed and given.id == "mariadb")
]


@pytest.fixture(params=BOTH_KINDS)
def alias(request: pytest.FixtureRequest, settings: Settings) -> str:
    """The database of the queues, in a ``TestCase`` and in a ``TransactionTestCase``."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"orders": {}, "receipts": {}, "mails": {}}}
    return hold_queues(settings, request.param)


@pytest.fixture
def handle() -> Iterator[Callable[..., None]]:
    """Register a handler for this test."""
    registered: list[str] = []

    def register(queue: str, function: Callable[[Any], Any], **options: Any) -> None:
        registered.append(queue)
        consumer(queue, **options)(function)

    yield register
    for queue in registered:
        handlers.forget(queue)
        handlers.forget(handlers.notices_of(queue))
