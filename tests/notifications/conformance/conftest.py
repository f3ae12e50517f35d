"""Each notifier, with listeners that are closed in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.notifications.base import Wake
from django_mq.notifications.postgresql import PostgreSQLNotifier
from django_mq.notifications.redis import RedisNotifier
from django_mq.notifications.registry import LocalNotifier
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.notifications.base import Listener, Notifier


ON_POSTGRESQL = pytest.mark.django_db(databases=["postgresql"], transaction=True)


@pytest.fixture(params=["local", "redis", pytest.param("postgresql", marks=ON_POSTGRESQL)])
def notifier(request: pytest.FixtureRequest) -> Notifier:
    """A notifier that no other test hears."""
    if request.param == "local":
        return LocalNotifier()
    if request.param == "postgresql":
        return PostgreSQLNotifier("postgresql")
    url: str = request.getfixturevalue("redis_url")
    return RedisNotifier(url, prefix=f"test-{uuid4().hex}", timeout_seconds=30.0)


class Ears:
    """Listeners, each with its wake."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._open: list[tuple[Listener, Wake]] = []

    def listen(self, topics: Iterable[str]) -> tuple[Listener, Wake]:
        """Return a listener that hears the topics from now on."""
        wake = Wake()
        listener = self._notifier.listen(wake)
        self._open.append((listener, wake))
        listener.subscribe(topics)
        wait_until(lambda: listener.connected)
        # A new connection wakes too: hints may have been missed.
        wait_until(lambda: wake.take_topics() or not self._notifier.reaches_others)
        wake.clear()
        return listener, wake

    def close(self) -> None:
        for listener, wake in self._open:
            listener.close()
            wake.close()


@pytest.fixture
def ears(notifier: Notifier) -> Iterator[Ears]:
    """What listens."""
    made = Ears(notifier)
    yield made
    made.close()
