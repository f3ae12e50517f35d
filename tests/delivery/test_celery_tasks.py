"""Celery tasks in the queue of a worker that cannot run them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_mq.delivery.consumer.handlers import carries_task, pause_seconds
from tests.delivery.builders import a_claimed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ('{"lang": "py", "task": "a.b", "retries": 0, "timelimit": [null, null], "origin": "a host"}', True),
        ('{"lang": "de", "task": "translate"}', False),
        ('{"task": "a.b"}', False),
        ('{"lang": "py"}', False),
        ("{}", False),
        ('["lang", "task", "retries", "timelimit"]', False),
        ('{"task": ', False),
    ],
)
def test_a_task_is_known_by_the_headers_that_celery_gives_it(headers: str, told: bool) -> None:
    assert carries_task(a_claimed(headers=headers)) is told


@pytest.mark.parametrize(("age", "seconds"), [(-60, 5), (0, 5), (20, 20), (10_000, 300)])
def test_a_task_is_left_alone_for_as_long_as_it_is_old_within_bounds(age: float, seconds: float) -> None:
    claimed = a_claimed(published_at=NOW - timedelta(seconds=age))

    assert pause_seconds(claimed, NOW) == seconds
