"""A worker that starts while its database is away waits for it, and then has its bridges."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_mq import outages
from django_mq.bridges.queues import bridged_when_reachable
from django_mq.delivery.queues import declare
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

    def look(alias: str) -> None:
        found.append(bridged_when_reachable(alias))
        connections[alias].close()

    with a_site_on(postgresql_server.url, settings, django_db_blocker) as alias:
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, "BRIDGES": {"other": {"url": "memory://"}}}
        declare(shared_store(alias), "out", {"bridge": "other"})
        connections[alias].close()
        postgresql_server.kill()
        waiting = threading.Thread(target=look, args=(alias,))
        waiting.start()
        wait_until(lambda: outages.database(alias) in outages.ongoing, "a try that has failed")
        assert found == []

        postgresql_server.start()
        waiting.join()

    assert found == [{"out": "other"}]
