"""A worker that starts while its database is away waits for it, and then has its bridges."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_mq import outages
from django_mq.bridges.queues import bridged_when_reachable
from django_mq.delivery.queues import declare
from django_mq.management.command import until_signalled
from django_mq.stores.registry import shared_store
from tests.support.site import a_site_on
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker, Settings

    from tests.services.postgresql import PostgreSQL


def test_the_bridges_of_queues_are_waited_for(
    postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker
) -> None:
    found: list[Any] = []
    told, never_told = threading.Event(), threading.Event()

    def look(alias: str, stopping: threading.Event) -> None:
        found.append(bridged_when_reachable(alias, stopping))
        connections[alias].close()

    with a_site_on(postgresql_server.url, settings, django_db_blocker) as alias:
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, "BRIDGES": {"other": {"url": "memory://"}}}
        declare(shared_store(alias), "out", {"bridge": "other"})
        connections[alias].close()
        postgresql_server.kill()
        stopped = threading.Thread(target=look, args=(alias, told))
        waiting = threading.Thread(target=look, args=(alias, never_told))
        stopped.start()
        waiting.start()
        wait_until(lambda: outages.database(alias) in outages.ongoing, "a try that has failed")
        assert found == []
        told.set()
        stopped.join()
        assert found == [{}]

        postgresql_server.start()
        waiting.join()

    assert found == [{}, {"out": "other"}]


def test_a_signal_is_noted_while_a_worker_waits_and_the_next_one_has_its_usual_effect() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with until_signalled() as stopping:
        signal.raise_signal(signal.SIGTERM)
        assert stopping.is_set()
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    with until_signalled() as stopping:
        assert not stopping.is_set()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
