"""What may be in the way of PostgreSQL's notifications: rights, limits, names, and other sites."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from django_mq import api
from django_mq.delivery.queues import declare
from django_mq.errors import InvalidMessage
from django_mq.notifications.base import News
from django_mq.notifications.postgresql import PostgreSQLNotifier
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.notifications.conformance.conftest import Ears
from tests.support.site import a_site_on, an_alias_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker, Settings

    from django_mq.notifications.base import Wake
    from tests.services.postgresql import PostgreSQL

#: Nothing but a hint and the safety poll makes a worker look.
SELDOM = {"POLL_SECONDS": 3600, "SAFETY_POLL_SECONDS": 2.0, "SESSION_SECONDS": 2.0}


@pytest.fixture
def site(postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A site on a server of the test's own."""
    with a_site_on(postgresql_server.url, settings, django_db_blocker) as alias:
        yield alias


def run(alias: str, query: str) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def waiting(alias: str) -> int:
    return shared_store(alias).queues.counts()["orders"].total


# Rights.

GRANTS = """
CREATE ROLE plain LOGIN;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO plain;
"""


@pytest.mark.once
@pytest.mark.parametrize(
    "refusal",
    [
        "REVOKE DELETE ON django_mq_idle FROM plain",
        "REVOKE INSERT ON django_mq_idle FROM plain",
        "REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC",
        "REVOKE EXECUTE ON FUNCTION pg_advisory_lock(int, int) FROM PUBLIC",
    ],
)
def test_a_role_that_may_not_notify_polls_and_the_doctor_says_why(
    site: str,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
    caplog: pytest.LogCaptureFixture,
    refusal: str,
) -> None:
    run(site, GRANTS + refusal)
    entry = connections[site].settings_dict | {"USER": "plain"}
    settings_before = settings.DJANGO_MQ
    with an_alias_of(entry, settings, django_db_blocker) as plain:
        settings.DJANGO_MQ = {**settings_before, "DATABASE": plain}

        with running(a_handler(), using=plain) as worker:
            for number in range(3):
                api.publish("orders", number)
            wait_until(lambda: waiting(plain) == 0)
            wait_until(lambda: "permission denied" in caplog.text)
            assert not worker.runtime.hears

        assert caplog.text.count("PostgreSQL's NOTIFY cannot be used") == 1
        (finding,) = notifier().findings()
        assert "permission denied" in finding.sentence


# Limits.


def full(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("SELECT pg_notify('filler', repeat('x', 7900))")
    except psycopg.errors.ProgramLimitExceeded:
        return True
    return False


def make_the_queue_small(server: PostgreSQL, site: str) -> None:
    """Give the server the smallest queue of notifications."""
    if connections[site].pg_version < 170_000:
        pytest.skip("The size of the queue is fixed, and too large for a test.")
    run(site, "ALTER SYSTEM SET max_notify_queue_pages = 64")
    connections[site].close()
    server.restart()


@contextmanager
def an_old_listener(url: str) -> Iterator[None]:
    """A connection that listens in an old transaction, so that notifications stay in the queue."""
    with psycopg.connect(url, autocommit=True) as old:
        old.execute("LISTEN filler")
        old.execute("BEGIN")
        old.execute("SELECT 1")
        yield


@contextmanager
def a_full_queue_of_notifications(url: str) -> Iterator[None]:
    """An old listener, and a connection that notifies until no more fits."""
    with an_old_listener(url), psycopg.connect(url, autocommit=True) as filler:
        wait_until(lambda: full(filler))
        yield


@pytest.mark.once
def test_a_full_queue_of_notifications_costs_the_time_to_a_poll(
    postgresql_server: PostgreSQL, site: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    make_the_queue_small(postgresql_server, site)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **SELDOM}

    with running(a_handler(), using=site) as worker:
        wait_until(lambda: worker.runtime.hears)
        with a_full_queue_of_notifications(postgresql_server.url):
            api.publish("orders", 1)
            wait_until(lambda: waiting(site) == 0)
            assert "too many notifications" in caplog.text
            assert "too many notifications" in PostgreSQLNotifier(site).problem()

        wait_until(lambda: PostgreSQLNotifier(site).problem() == "")


def test_a_queue_of_notifications_that_fills_is_a_problem_before_it_is_full(
    postgresql_server: PostgreSQL, site: str
) -> None:
    make_the_queue_small(postgresql_server, site)
    with an_old_listener(postgresql_server.url):
        for _ in range(45):
            run(site, "SELECT pg_notify('filler', repeat('x', 7900))")

        assert "% full" in PostgreSQLNotifier(site).problem()


def test_the_longest_name_fits_into_a_notification(site: str) -> None:
    name = "\U0001d11e" * 200
    ears = Ears(PostgreSQLNotifier(site))
    listener, wake = ears.listen([f"q:{name}"])
    listener.register_idle([name])

    api.announce(name)

    wait_until(lambda: f"n:{name}" in wake.take_topics())
    ears.close()


@pytest.mark.parametrize(
    ("queue", "messages"),
    [
        ("", 1),
        ("x" * 201, 1),
        ("a\x00b", 1),
        ("\ud800", 1),
        (None, 1),
        ("orders", 0),
        ("orders", -1),
        ("orders", 2**31),
        ("orders", True),
        ("orders", 1.5),
        ("orders", "1"),
    ],
)
def test_what_cannot_be_announced_is_refused(queue: Any, messages: Any) -> None:
    with pytest.raises(InvalidMessage):
        api.announce(queue, messages=messages)


# Names, and other sites.


def test_a_database_may_have_any_name(
    postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker
) -> None:
    name = "o'bri\"en's \\ \u00fc; --"
    with psycopg.connect(postgresql_server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = postgresql_server.url.rpartition("/")[0] + "/" + quote(name, safe="")
    with a_site_on(url, settings, django_db_blocker) as alias:
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 3600, "SESSION_SECONDS": 3600}
        with running(a_handler(), using=alias) as worker:
            wait_until(lambda: worker.runtime.hears)
            api.publish("orders", 1)
            wait_until(lambda: waiting(alias) == 0)


@pytest.mark.once
@pytest.mark.parametrize("apart", ["databases", "schemas"])
def test_two_sites_on_one_server_do_not_hear_each_other(
    postgresql_server: PostgreSQL,
    site: str,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
    apart: str,
) -> None:
    run(site, "CREATE DATABASE second" if apart == "databases" else "CREATE SCHEMA second")
    entry = connections[site].settings_dict
    second = {"NAME": "second"} if apart == "databases" else {"OPTIONS": {"options": "-c search_path=second"}}
    with an_alias_of({**entry, **second}, settings, django_db_blocker) as other:
        call_command("migrate", "django_mq", database=other, verbosity=0)
        declare(shared_store(other), "orders")
        notifiers = PostgreSQLNotifier(site), PostgreSQLNotifier(other)
        both = [Ears(notifier) for notifier in notifiers]
        wakes: list[Wake] = []
        for ears in both:
            listener, wake = ears.listen(["q:orders", "q:witness"])
            listener.register_idle(["orders"])
            wakes.append(wake)

        notifiers[0].announce({"orders": News(messages=5)})
        notifiers[0].send(["q:orders"])
        for notifier in notifiers:
            notifier.send(["q:witness"])

        assert [heard(wake) for wake in wakes] == [{"n:orders", "q:orders", "q:witness"}, {"q:witness"}]
        for ears in both:
            ears.close()


def heard(wake: Wake) -> set[str]:
    topics: set[str] = set()
    while "q:witness" not in topics:
        assert wake.wait(PATIENCE_SECONDS)
        topics |= wake.take_topics()
    return topics
