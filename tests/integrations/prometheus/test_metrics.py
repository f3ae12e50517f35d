"""What Prometheus sees of the queues, and what it costs."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.test import RequestFactory
from prometheus_client import CollectorRegistry

from django_mq.api import pause, publish, publish_many
from django_mq.delivery.declaring import declare
from django_mq.integrations.prometheus import collector, view
from django_mq.integrations.prometheus.collector import QueueCollector
from django_mq.models import Queue, Rollup, WorkerSession
from django_mq.stores.records import SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries, Settings


@pytest.fixture
def registry(database: str) -> CollectorRegistry:
    declare(shared_store(database), "orders")
    shared_store(database).roll_up()
    registry = CollectorRegistry()
    registry.register(QueueCollector(cache_seconds=0))
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"django_mq_{name}", labels)


def test_each_queue_shows_its_age_depth_and_consumers(database: str, registry: CollectorRegistry) -> None:
    publish_many([("orders", 1), ("orders", 2)])
    publish("orders", 3, delay=60)
    worker = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=("orders",))
    shared_store(database).open_session(worker, deadline_seconds=60)

    assert value(registry, "up") == 1
    assert value(registry, "messages", queue="orders", state="ready") == 2
    assert value(registry, "messages", queue="orders", state="scheduled") == 1
    assert value(registry, "consumers", queue="orders") == 1
    assert value(registry, "workers", state="alive") == 1
    age = value(registry, "oldest_ready_seconds", queue="orders")
    assert age is not None
    assert 0 <= age < 300


def test_a_paused_queue_says_so(database: str, registry: CollectorRegistry) -> None:
    assert value(registry, "paused", queue="orders") == 0
    pause("orders")
    assert value(registry, "paused", queue="orders") == 1


def test_dead_letters_are_counted_where_they_are(database: str, registry: CollectorRegistry) -> None:
    declare(shared_store(database), "letters")
    queues = Queue.objects.using(database)
    queues.filter(name="orders").update(dead_letter_queue=queues.get(name="letters"))
    publish_many([("letters", 1), ("orders", 2)])

    assert value(registry, "dead_letters", queue="letters") == 1
    assert value(registry, "takes_dead_letters", queue="letters") == 1
    assert value(registry, "dead_letters", queue="orders") == 0
    assert value(registry, "takes_dead_letters", queue="orders") == 0


def test_an_empty_queue_has_no_age(database: str, registry: CollectorRegistry) -> None:
    assert value(registry, "oldest_ready_seconds", queue="orders") == 0


def test_rates_that_nobody_has_summed_up_are_unknown_and_not_zero(
    database: str, registry: CollectorRegistry
) -> None:
    assert value(registry, "rate", queue="orders", kind="arrived") == 0

    Rollup.objects.using(database).all().delete()

    assert value(registry, "rate", queue="orders", kind="arrived") is None


def test_what_clients_name_is_no_label(database: str, registry: CollectorRegistry) -> None:
    for number in range(5):
        publish("orders", type=f"type{number}", correlation_id=f"id{number}")

    labels = {key for metric in registry.collect() for sample in metric.samples for key in sample.labels}

    assert labels == {"queue", "state", "kind"}


def test_only_so_many_queues_have_series(
    database: str, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MOST_QUEUES", 2)
    for name in ("a", "b", "c"):
        declare(shared_store(database), name)
    publish("c")

    shown = {
        sample.labels["queue"]
        for metric in registry.collect()
        for sample in metric.samples
        if "queue" in sample.labels
    }

    assert len(shown) == 2
    assert "c" in shown
    assert value(registry, "queues") == 4


def test_a_scrape_is_a_few_statements_and_a_second_one_none(
    database: str, registry: CollectorRegistry, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    cached = QueueCollector(cache_seconds=3600)
    with django_assert_max_num_queries(7, using=database):
        cached.collect()
    with django_assert_max_num_queries(0, using=database):
        assert cached.collect()


def test_registering_asks_nothing(database: str, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_max_num_queries(0, using=database):
        CollectorRegistry().register(QueueCollector())


def test_the_page_is_what_a_scraper_reads(database: str) -> None:
    view._registry.cache_clear()
    declare(shared_store(database), 'or"ders\\')
    answer = view.metrics(RequestFactory().get("/metrics/queues"))

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    assert b'django_mq_messages{queue="or\\"ders\\\\",state="ready"} 0.0' in answer.content
    assert view.metrics(RequestFactory().post("/metrics/queues")).status_code == 405


@pytest.mark.django_db
def test_tables_that_are_not_there_are_down_and_no_error(settings: Settings) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Queue._meta.db_table} RENAME TO elsewhere")
    registry = CollectorRegistry()
    registry.register(QueueCollector("default"))

    assert value(registry, "up") == 0
    assert value(registry, "queues") is None
    assert not WorkerSession.objects.exists()


SCRAPES = """
import os, sys, threading, time
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django_mq"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": "x", "HOST": "127.0.0.1", "PORT": sys.argv[1],
    }},
    # As deaf as the database: a scrape never asks it.
    DJANGO_MQ={"REDIS_URL": f"redis://127.0.0.1:{sys.argv[1]}"},
)
import django
django.setup()
from django_mq.integrations.prometheus.collector import QueueCollector
collector = QueueCollector(patience_seconds=0.1)
threading.Thread(target=collector.collect, daemon=True).start()
while not collector._lock.locked():
    time.sleep(0.01)
figures = [(metric.name, metric.samples[0].value) for metric in collector.collect()]
print(figures, "redis" in sys.modules, flush=True)
os._exit(0)
"""


def test_a_database_that_hangs_holds_one_scrape_and_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        scraped = subprocess.run(
            [sys.executable, "-c", SCRAPES, str(deaf.getsockname()[1])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert scraped.stdout == "[('django_mq_up', 0.0)] False\n", scraped.stderr
