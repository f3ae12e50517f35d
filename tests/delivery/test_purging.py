"""A purge while messages keep coming."""

from __future__ import annotations

from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_mq.api import publish, purge
from django_mq.models import Message

if TYPE_CHECKING:
    import pytest


def test_a_purge_leaves_what_comes_meanwhile(database: str, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator has seen how many there are; and where many publish, it would never end."""
    monkeypatch.setattr("django_mq.stores.sql.deletions.PURGE_CHUNK", 1)
    publish(orders, "early")
    publish(orders, "early", delay=3600)
    late = islice(repeat("late"), 5)

    def publish_another(execute: Any, sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)
        if "DELETE FROM django_mq_message" in sql and (body := next(late, None)):
            publish(orders, body, priority=9)
        return answer

    with connections[database].execute_wrapper(publish_another):
        removed = purge(orders)

    left = [bytes(body) for body in Message.objects.using(database).values_list("body", flat=True)]
    assert (removed, left) == (2, [b'"late"', b'"late"'])
