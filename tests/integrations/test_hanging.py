"""Servers that accept and never answer: pages and probes answer in time, and are well once the servers answer."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test import RequestFactory
from django.urls import reverse

from django_mq.diagnosis.state import question
from django_mq.diagnosis.state.health import Demands, Probe
from django_mq.formats import PLAIN
from django_mq.integrations.health import health_page
from django_mq.integrations.prometheus.collector import QueueCollector
from django_mq.notifications.registry import notifier
from django_mq.seams.findings import Level
from tests.settings.databases import to_url
from tests.support.site import a_site_on
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client
    from pytest_django import DjangoDbBlocker, Settings

    from tests.services.postgresql import PostgreSQL
    from tests.services.redis import Redis

#: So short that a test need not wait for it, where the database does not answer at all.
IMPATIENCE_SECONDS = 0.2


@pytest.fixture
def site(postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """An alias with a server that may be frozen; it goes on before its connections are closed."""
    with a_site_on(postgresql_server.url, settings, django_db_blocker) as alias:
        yield alias
        postgresql_server.thaw()


@pytest.fixture(autouse=True)
def nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was suspended for long is no reason to ask a second time."""
    monkeypatch.setattr(question, "LOST_SECONDS", float("inf"))


@pytest.mark.once
def test_a_frozen_database_is_reported_in_time_and_well_when_it_goes_on(
    site: str, postgresql_server: PostgreSQL
) -> None:
    collector = QueueCollector(cache_seconds=0, patience_seconds=PATIENCE_SECONDS)
    probe = Probe(Demands())
    assert is_up(collector)
    assert probe.answer(using=site, timeout_seconds=PATIENCE_SECONDS).well

    postgresql_server.freeze()
    collector._patience_seconds = IMPATIENCE_SECONDS
    page = health_page(timeout_seconds=IMPATIENCE_SECONDS)(RequestFactory().get("/healthz"))
    up, health = is_up(collector), probe.answer(using=site, timeout_seconds=IMPATIENCE_SECONDS)
    ended = {command: command_on(site, command) for command in ("mq_health", "mq_doctor")}
    postgresql_server.thaw()

    sentence = f"The database has not answered within {PLAIN.precise(IMPATIENCE_SECONDS)}."
    assert not up
    assert health.alerts == [sentence]
    assert page.status_code == 503
    assert ended["mq_health"] == (1, f"{sentence}\n")
    assert ended["mq_doctor"][0] == 1
    assert f"problem  database: '{site}' cannot be used: {sentence}\n" in ended["mq_doctor"][1]
    # Those that were left behind are answered now, and leave.
    wait_until(lambda: "django_mq-question" not in {thread.name for thread in threading.enumerate()})
    collector._patience_seconds = PATIENCE_SECONDS
    assert is_up(collector)
    assert probe.answer(using=site, timeout_seconds=PATIENCE_SECONDS).well


def is_up(collector: QueueCollector) -> bool:
    """Return the figures of a scrape: only ``django_mq_up`` if the database is down."""
    first, *others = collector.collect()
    up = first.samples[0].value == 1
    assert first.name == "django_mq_up"
    assert bool(others) is up
    return up


def command_on(alias: str, command: str) -> tuple[int, str]:
    """Run the command in a process of its own, and return its code and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", ON_SITE, alias, to_url(connections[alias].settings_dict), command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


ON_SITE = f"""
import sys
from django.conf import settings
from tests.settings.databases import from_url
alias, url, command = sys.argv[1:]
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django_mq"],
    DATABASES={{"default": {{}}, alias: from_url(url)}},
    DATABASE_ROUTERS=["django_mq.routers.MQRouter"],
    DJANGO_MQ={{"DATABASE": alias}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
import django
django.setup()
from django.core.management import call_command
call_command(command, timeout={IMPATIENCE_SECONDS}, no_color=True)
"""


@pytest.mark.django_db
def test_a_frozen_redis_does_not_hold_up_pages_and_probes(
    redis_server: Redis, settings: Settings, admin_client: Client
) -> None:
    settings.DJANGO_MQ = {"REDIS_URL": redis_server.url}
    redis_server.freeze()

    answer = admin_client.get(reverse("admin:django_mq_queue_overview"))
    (found,) = notifier().findings()

    assert answer.status_code == 200
    assert found.level is Level.PROBLEM
