"""A notifier of the test's own Redis, and what listens to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.notifications.redis import RedisNotifier
from tests.notifications.conformance.conftest import Ears

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.redis import Redis


@pytest.fixture
def notifier(redis_server: Redis) -> RedisNotifier:
    return RedisNotifier(redis_server.url, prefix="mq", timeout_seconds=30.0)


@pytest.fixture
def ears(notifier: RedisNotifier) -> Iterator[Ears]:
    made = Ears(notifier)
    yield made
    made.close()
