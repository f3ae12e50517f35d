"""What Prometheus sees of the queues, and what it costs."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.db import connection, connections
from django.db.models import F
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from django_mq.api import pause, publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state.overview import oldest_claims
from django_mq.engine.histograms import LARGEST_ERROR, as_text, histogram_of
from django_mq.integrations.prometheus import figures, view
from django_mq.integrations.prometheus.collector import QueueCollector
from django_mq.models import Message, Queue, Rollup, WorkerSession
from django_mq.rollups.duty import sum_up
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store
from tests.stores.test_query_plans import filled
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.on("sqlite")

WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=("orders",))


class Figures(Collector):
    """The figures, read in the test's transaction."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def collect(self) -> list[Metric]:
        return figures.read(self._alias)


@pytest.fixture
def registry(database: str) -> CollectorRegistry:
    declare(shared_store(database), "orders")
    sum_up(shared_store(database), 1000)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(database))
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"django_mq_{name}", labels)


def test_each_queue_shows_its_age_depth_and_consumers(database: str, registry: CollectorRegistry) -> None:
    publish_many([("orders", 1), ("orders", 2)])
    publish("orders", 3, delay=60)
    shared_store(database).sessions.open(WORKER, deadline_seconds=60)

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
    Message.objects.using(database).filter(queue__name="letters").update(dead_reason="boom")
    publish("letters", 3)

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

    assert labels <= {"queue", "state", "kind", "percentile", "extension", "level"}


def test_only_so_many_queues_have_series(
    database: str, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_QUEUES", 2)
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


def test_waits_and_runs_are_those_of_the_last_minutes(database: str, registry: CollectorRegistry) -> None:
    assert value(registry, "wait_seconds", queue="orders", percentile="50") is None
    rollups = Rollup.objects.using(database)
    minute = rollups.filter(seconds=60).latest("begins_at").begins_at
    written = [(minute, [0.2] * 30, 3.0), (minute - timedelta(minutes=1), [2] * 10, 3.0)]
    for when, waits, run in [*written, (minute - timedelta(hours=1), [50] * 100, 70.0)]:
        spans = {"waits": as_text(histogram_of(waits)), "runs": as_text(histogram_of([run] * len(waits)))}
        rollups.create(begins_at=when, queue_name="orders", accepted=len(waits), **spans)

    within = partial(pytest.approx, rel=LARGEST_ERROR)
    assert value(registry, "wait_seconds", queue="orders", percentile="50") == within(0.2)
    assert value(registry, "wait_seconds", queue="orders", percentile="95") == within(2)
    assert value(registry, "held_seconds", queue="orders", percentile="95") == within(3)


def test_the_oldest_claim_shows_a_handler_that_hangs(database: str, registry: CollectorRegistry) -> None:
    assert value(registry, "oldest_claimed_seconds", queue="orders") == 0
    publish("orders")
    store = shared_store(database)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1))
    Message.objects.using(database).update(claimed_at=timezone.now() - timedelta(hours=2))

    age = value(registry, "oldest_claimed_seconds", queue="orders")

    assert age is not None
    assert 7000 < age < 7800


def test_credit_and_slots_say_how_busy_workers_are(database: str, registry: CollectorRegistry) -> None:
    assert value(registry, "credit_used", queue="orders") is None
    declare(shared_store(database), "endless")
    sessions = WorkerSession.objects.using(database)
    ids = [shared_store(database).sessions.open(WORKER, deadline_seconds=60) for _ in range(2)]
    for number in ids:
        session = sessions.get(pk=number)
        session.consumers.create(queue_name="orders", credit_used=3, credit_limit=10)
        session.consumers.create(queue_name="endless", credit_used=1, credit_limit=0)
    sessions.update(busy=2, slots=4)
    sessions.filter(pk=ids[0]).update(deadline=timezone.now() - timedelta(hours=1))

    assert value(registry, "workers", state="stale") == 1
    assert value(registry, "credit_used", queue="orders") == 3
    assert value(registry, "credit_limit", queue="orders") == 10
    assert value(registry, "credit_used", queue="endless") == 1
    assert value(registry, "credit_limit", queue="endless") is None
    assert (value(registry, "busy_slots"), value(registry, "slots")) == (2, 4)


def test_the_last_minute_summed_up_shows_that_maintenance_runs(database: str, registry: CollectorRegistry) -> None:
    rollups = Rollup.objects.using(database)
    rollups.update(begins_at=F("begins_at") - timedelta(hours=2))

    age = value(registry, "summed_up_seconds")

    assert age is not None
    assert 7200 <= age < 7800
    rollups.all().delete()
    assert value(registry, "summed_up_seconds") is None


def test_a_scrape_is_a_few_statements(
    database: str, registry: CollectorRegistry, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(20):
        declare(shared_store(database), f"queue{number}")
        shared_store(database).sessions.open(WORKER, deadline_seconds=60)
    # The extensions look for what is wrong within one savepoint, each by a statement or two.
    with django_assert_max_num_queries(18, using=database):
        figures.read(database)


#: How each kind of database is asked for a plan, and its index of what is claimed.
PLANS = {
    "sqlite": ("EXPLAIN QUERY PLAN", "django_mq_message_claimed"),
    "postgresql": ("EXPLAIN", "django_mq_message_claimed"),
    # It has no partial indexes: this one begins with queue and state.
    "mysql": ("EXPLAIN", "django_mq_message_ready"),
}


def test_the_oldest_claims_are_found_by_an_index(committed_database: str) -> None:
    # MariaDB commits what is there when it gathers statistics.
    filled(committed_database)
    explain, index = PLANS[connections[committed_database].vendor]
    with CaptureQueriesContext(connections[committed_database]) as captured:
        oldest_claims(["q1", "q2"], using=committed_database)
    with connections[committed_database].cursor() as cursor:
        cursor.execute(f"{explain} {captured.captured_queries[0]['sql']}")
        assert index in str(cursor.fetchall())


@pytest.mark.django_db(transaction=True)
def test_a_second_scrape_is_told_what_the_first_was(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("django_mq.integrations.prometheus.collector.read", lambda alias: seen.append(alias) or [])
    cached = QueueCollector(cache_seconds=3600, patience_seconds=PATIENCE_SECONDS)

    assert [cached.collect(), cached.collect()] == [[], []]
    assert seen == ["default"]


def test_registering_asks_nothing(database: str, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_max_num_queries(0, using=database):
        CollectorRegistry().register(QueueCollector())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that waits long: a suspended machine must not look like a database that does not answer."""
    monkeypatch.setattr(view, "QueueCollector", partial(QueueCollector, patience_seconds=PATIENCE_SECONDS))
    view._registry.cache_clear()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("patient")
def test_the_page_is_what_a_scraper_reads() -> None:
    declare(shared_store("default"), 'or"ders\\')
    answer = view.metrics(RequestFactory().get("/metrics/queues"))

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    assert b'django_mq_messages{queue="or\\"ders\\\\",state="ready"} 0.0' in answer.content
    assert view.metrics(RequestFactory().post("/metrics/queues")).status_code == 405


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("patient")
def test_a_scraper_that_asks_for_open_metrics_gets_them() -> None:
    accept = "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"
    answer = view.metrics(RequestFactory().get("/metrics/queues", headers={"accept": accept}))

    assert answer["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.content.endswith(b"# EOF\n")


@pytest.mark.django_db(transaction=True)
def test_tables_that_are_not_there_are_down_and_no_error() -> None:
    table = Queue._meta.db_table
    registry = CollectorRegistry()
    registry.register(QueueCollector("default", patience_seconds=PATIENCE_SECONDS))
    with renamed(table):
        assert value(registry, "up") == 0
        assert value(registry, "queues") is None


@contextmanager
def renamed(table: str) -> Iterator[None]:
    """A table that has another name for a while."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE elsewhere RENAME TO {table}")


SCRAPES = """
import sys, threading
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
from django_mq.diagnosis.state import question
from django_mq.integrations.prometheus.collector import QueueCollector
question.LOST_SECONDS = float("inf")  # however long this machine stands still
collector = QueueCollector(patience_seconds=0.1)
# Two ask at once, and a third later: one thread asks the database.
others = [threading.Thread(target=collector.collect) for _ in range(2)]
for other in others:
    other.start()
for other in others:
    other.join()
figures = [(metric.name, metric.samples[0].value) for metric in collector.collect()]
asking = [thread.name for thread in threading.enumerate() if thread.name == "django_mq-question"]
print(figures, asking, "redis" in sys.modules, flush=True)
"""


def test_a_database_that_hangs_holds_no_scrape_and_one_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        scraped = subprocess.run(
            [sys.executable, "-c", SCRAPES, str(deaf.getsockname()[1])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert scraped.stdout == "[('django_mq_up', 0.0)] ['django_mq-question'] False\n", scraped.stderr
    assert scraped.returncode == 0
