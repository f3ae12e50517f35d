"""A queue to publish to, and ears that hear the hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.delivery.queues import declare
from django_mq.notifications.base import Wake, queue_of, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.stores.base import Store


@pytest.fixture
def store(database: str) -> Store:
    """The store of a publisher, on each kind of database."""
    return shared_store(database)


@pytest.fixture
def orders(store: Store) -> str:
    """A queue with the default options."""
    declare(store, "orders")
    return "orders"


class Ear:
    """Hears the hints for some queues, in this process."""

    def __init__(self, *queues: str) -> None:
        self._wake = Wake()
        self._listener = notifier().listen(self._wake)
        self._queues = queues
        self._listener.subscribe([queue_topic(queue) for queue in queues])
        self._listener.register_idle(queues)

    @property
    def heard(self) -> set[str]:
        """The topics named since it was last asked; a notification counts as its queue's topic."""
        self._wake.clear()
        topics = self._wake.take_topics()
        self._listener.register_idle(self._queues)
        return {queue_topic(queue_of(topic)) if topic[:2] in {"n:", "b:"} else topic for topic in topics}

    def close(self) -> None:
        self._listener.close()
        self._wake.close()


@pytest.fixture
def ear(settings: Settings) -> Iterator[Ear]:
    """An ear for the queue ``orders``; hints stay in the process, so that they arrive at once."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "HINTS": "none"}
    opened = Ear("orders")
    yield opened
    opened.close()
