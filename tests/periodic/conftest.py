"""A queue in each database, and a clock that tests move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.periodic import editor
from django_mq.periodic.duty import _next_looks, look
from django_mq.periodic.models import PeriodicMessage
from django_mq.stores.registry import shared_store
from django_mq.testing import QueueTester
from tests.stores.builders import declare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def alias(committed_database: str) -> str:
    declare(shared_store(committed_database), "reports")
    return committed_database


@pytest.fixture
def move() -> Iterator[Callable[[timedelta], None]]:
    with QueueTester() as mq:
        yield mq.move_clock


def a_row(alias: str, **values: Any) -> PeriodicMessage:
    """Write a periodic message for the queue of the tests; an interval of an hour if nothing else is said."""
    usual: dict[str, Any] = {"name": "report", "queue": "reports", "body": {"n": 1}}
    if "cron" not in values:
        usual |= {"every_seconds": 3600.0, "start_at": datetime.now(UTC) + timedelta(seconds=600)}
    row = PeriodicMessage(**(usual | values))
    editor.save(row, using=alias)
    return row


def look_now(alias: str) -> int:
    """Look as a leader does whose time to look has come."""
    _next_looks.clear()
    return look(shared_store(alias), 1000)
