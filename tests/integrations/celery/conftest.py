"""Kombu connections and Celery apps on each kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from celery import Celery
from kombu import Connection

from django_mq.delivery.consumer import heartbeat
from django_mq.delivery.consumer.session import close_all
from django_mq.inprocess.memory.broker import empty_brokers
from django_mq.integrations.celery.url import register
from django_mq.models import Message
from django_mq.stores.registry import MEMORY, shared_store
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.inprocess.memory.store import MemoryStore

    #: The live messages, oldest first.
    Rows = Callable[..., list[Message]]


@pytest.fixture(autouse=True)
def scheme() -> None:
    """The scheme is known."""
    register()


@pytest.fixture(autouse=True)
def idle_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program itself writes its settlements: the heartbeat does not when the program closes and looks."""
    monkeypatch.setattr(heartbeat, "STALE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery runs Django's checks as a worker starts; some of them ask every database what it can do."""
    monkeypatch.setenv("CELERY_SKIP_CHECKS", "1")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """An empty broker in memory, and a handle of it."""
    empty_brokers()
    yield shared_store(MEMORY)  # type: ignore[misc]
    empty_brokers()


@pytest.fixture
def url(committed_database: str) -> Iterator[str]:
    """The broker's URL of the test's database; no session outlives its test."""
    yield f"django-mq:///{committed_database}"
    close_all()


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    """A Kombu connection, as an application has it."""
    with Connection(url) as opened:
        yield opened


@pytest.fixture
def app(url: str) -> Iterator[Celery]:
    """A Celery app with one task."""
    with Celery("unit", broker=url, set_as_current=False) as made:
        made.task(name="note", shared=False)(_note)
        yield made


def _note() -> None:
    """Do nothing: no worker runs it."""


@pytest.fixture
def rows(committed_database: str) -> Rows:
    """Looks at the table."""
    return lambda **only: list(Message.objects.using(committed_database).filter(**only).order_by("id"))
