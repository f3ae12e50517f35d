"""Stores for the tests: every conformance test runs once for each database, and in memory.

It does so over the connection that does its work in production. Most of it is a worker's work. ``AS_PUBLISHER``
marks what programs do over Django's connection, ``IN_BOTH_WAYS`` what the code does differently over each, and
``ON_DATABASES`` what looks into tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from django_mq.inprocess.memory.broker import empty_brokers
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.inprocess.rules import Rules
from django_mq.models import Attempt, History, Queue
from django_mq.stores import connections, queue_records
from django_mq.stores.registry import MEMORY, private_store, shared_store
from django_mq.stores.sqlite.store import SQLiteSessions
from tests.conftest import ALIASES
from tests.stores.builders import declare, open_session
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from django_mq.stores.base import Store

    #: Changes fields of a queue by name.
    EditQueue = Callable[..., None]


def publishers() -> Iterator[Any]:
    """Each database over Django's connection."""
    for alias, name in ALIASES.items():
        yield pytest.param(partial(shared_store, alias), id=name, marks=pytest.mark.django_db(databases=[alias]))


def workers() -> Iterator[Any]:
    """Each database over a connection as a worker has it."""
    for alias, name in ALIASES.items():
        committed = pytest.mark.django_db(databases=[alias], transaction=True)
        yield pytest.param(partial(private_store, alias), id=f"{name} worker", marks=committed)


def memory_store() -> Store:
    """A store over an unused broker."""
    empty_brokers()
    return private_store(MEMORY)


MEMORY_STORE = pytest.param(memory_store, id="memory")
ON_DATABASES = pytest.mark.parametrize("store", [*workers()], indirect=True)
AS_PUBLISHER = pytest.mark.parametrize("store", [*publishers(), MEMORY_STORE], indirect=True)
IN_BOTH_WAYS = pytest.mark.parametrize("store", [*publishers(), *workers(), MEMORY_STORE], indirect=True)


@pytest.fixture(autouse=True)
def no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a second keeps no database locked, and its workers are not cut off."""
    monkeypatch.setattr(SQLiteSessions, "outage_seconds", PATIENCE_SECONDS)
    monkeypatch.setattr(connections, "IDLE_SECONDS", int(PATIENCE_SECONDS))


@pytest.fixture(params=[*workers(), MEMORY_STORE])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store of each kind."""
    opened: Store = request.param()
    yield opened
    opened.close()


@pytest.fixture
def orders(store: Store) -> str:
    """A queue named ``orders`` with the default options."""
    return declare(store)


@pytest.fixture
def session(store: Store) -> int:
    """A worker session."""
    return open_session(store)


@pytest.fixture
def edit_queue(store: Store) -> EditQueue:
    """What an operator does in the admin: change a queue's row."""
    if isinstance(store, MemoryStore):
        return partial(edit_in_memory, store)

    def edit(name: str, **changes: Any) -> None:
        # As the admin does: what was known of the room may be no longer so.
        changed = {"counted_at": None} | changes
        assert Queue.objects.using(store.alias).filter(name=name).update(**changed) == 1
        queue_records.forget(store.alias, name)

    return edit


@pytest.fixture
def finished(store: Store) -> Callable[[], list[History]]:
    """The history's rows, oldest first."""
    if isinstance(store, MemoryStore):
        return lambda: list(store.broker.history)
    return lambda: list(History.objects.using(store.alias).order_by("id"))


@pytest.fixture
def attempts(store: Store) -> Callable[[], list[Attempt]]:
    """The failed attempts' rows, oldest first."""
    if isinstance(store, MemoryStore):
        return lambda: list(store.broker.attempts)
    return lambda: list(Attempt.objects.using(store.alias).order_by("id"))


def edit_in_memory(store: MemoryStore, name: str, **changes: Any) -> None:
    """The same where there is no row: ``closed`` belongs to the queue, the rest to its settings."""
    queue = store.broker.queues[name]
    queue.inner.closed = changes.pop("closed", queue.inner.closed)
    queue.settings = replace(queue.settings, **changes)
    queue.inner.control.change(Rules.of(queue.settings))
    queue_records.forget(store.alias, name)


def needs_rows(store: Store) -> None:
    """Skip a test of what is written into tables."""
    if not store.features.durable:
        pytest.skip("features.durable: this store has no tables to look into")
