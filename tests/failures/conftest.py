"""Failed attempts in each database, and their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.utils import timezone

from django_mq.failures.groups import group_new
from django_mq.models import Attempt, FailureGroup
from django_mq.stores.registry import shared_store
from tests.stores.builders import declare

if TYPE_CHECKING:
    from collections.abc import Callable

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/consumers.py", line {line}, in send_invoice
    raise ValueError
ValueError
"""


@pytest.fixture
def alias(committed_database: str) -> str:
    declare(shared_store(committed_database), "orders")
    return committed_database


@pytest.fixture
def fail(alias: str) -> Callable[..., Attempt]:
    """Return a function that writes a failed attempt, of which only ``error`` makes another group."""

    def write(error: str = "ValueError", **values: Any) -> Attempt:
        given = {"message_id": uuid4(), "queue_name": "orders", "number": 1, "failed_at": timezone.now()}
        given |= {"type": "invoice", "worker": "w1", "detail": f"order {uuid4()} is gone"}
        given |= {"traceback": TRACEBACK.format(line=31), "error_path": f"shop.{error}"}
        return Attempt.objects.using(alias).create(error=error, **given | values)

    return write


def grouped(alias: str) -> dict[str, FailureGroup]:
    """Give all attempts their groups, and return the groups by their exceptions."""
    while group_new(shared_store(alias), 500):
        pass
    return {group.error: group for group in FailureGroup.objects.using(alias)}
