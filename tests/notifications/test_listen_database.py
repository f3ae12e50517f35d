"""Publishers behind a transaction pool, and workers that listen beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections

from django_mq.api import publish
from django_mq.checks import check_database
from django_mq.notifications.postgresql import REFUSED, PostgreSQLNotifier
from django_mq.stores.registry import shared_store
from tests.conftest import skip_or_fail
from tests.delivery.builders import a_handler, running
from tests.services.pgbouncer import PORT, PgBouncer
from tests.services.server import UnavailableError
from tests.support.site import a_site_on, an_alias_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker, Settings

    from tests.services.postgresql import PostgreSQL


def test_a_direct_connection_hears_what_is_published_through_the_pool(
    postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker
) -> None:
    with a_site_on(postgresql_server.url, settings, django_db_blocker) as direct:
        entry = connections[direct].settings_dict.copy()
        try:
            bouncer = PgBouncer(entry)
        except UnavailableError as missing:
            skip_or_fail(missing)
        pool = {"HOST": str(bouncer.directory), "PORT": PORT, "DISABLE_SERVER_SIDE_CURSORS": True}
        untold = entry | pool | {"DISABLE_SERVER_SIDE_CURSORS": False}
        with (
            bouncer,
            an_alias_of(untold, settings, django_db_blocker) as refused,
            an_alias_of(entry | pool, settings, django_db_blocker) as pooled,
        ):
            assert REFUSED in PostgreSQLNotifier(refused).problem()
            assert "LISTEN_DATABASE" in PostgreSQLNotifier(pooled).problem()
            assert PostgreSQLNotifier(pooled, listen_alias=direct).problem() == ""
            settings.DJANGO_MQ = {**settings.DJANGO_MQ, "LISTEN_DATABASE": direct, "POLL_SECONDS": 3600}
            assert check_database(databases=[pooled]) == []

            with running(a_handler(), using=pooled) as worker:
                wait_until(lambda: worker.runtime.hears)
                publish("orders", 1)
                wait_until(lambda: shared_store(pooled).queues.counts()["orders"].total == 0)
