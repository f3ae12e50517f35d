"""Live workers whose tasks cannot publish what must follow them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from celery import chain

from django_mq.models import Queue
from django_mq.periodic.models import PeriodicRun
from tests.journeys.conftest import LONGER
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]
#: Two periodic messages, each run once: a task that is acknowledged when it begins, and one when it ends.
RUN_BOTH = """
from django_mq.periodic.editor import run_now, save
from django_mq.periodic.models import PeriodicMessage
from tests.journeys.project import tasks
for task, last in (("stubborn", 2), ("retrying", "gate")):
    row = PeriodicMessage(name=task, kind="celery", target=task, args=[task, last], every_seconds=86400)
    save(row, using="default")
    run_now(row)
"""


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_a_task_whose_retry_is_refused_runs_again_until_it_is_not(site: Site, pool: str) -> None:
    site.declare("celery", max_attempts=0)
    site.send("retry_in_transaction", "job")
    queue = Queue.objects.using(site.alias)
    queue.update(closed=True)
    with site.worker("-c", "1", "-P", pool):
        site.wait_for_diary(2, name="job", retries=0)
        queue.update(closed=False)
        site.wait_for_diary(name="job", retries=1)
        site.wait_until_settled()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_the_run_of_a_tick_has_the_outcome_of_the_last_message_of_its_task(site: Site, pool: str) -> None:
    site.run("django", "shell", "-c", RUN_BOTH)
    runs = PeriodicRun.objects.using(site.alias)
    with site.worker("-c", "2", "-P", pool):
        site.open("gate")
        for name, attempts in (("stubborn", 3), ("retrying", 2)):
            run = runs.filter(periodic__name=name)
            wait_until(run.exclude(outcome="").exists, site.story)
            assert len(site.diary(name=name)) == attempts
    assert set(runs.values_list("outcome", flat=True)) == {"succeeded"}


@pytest.fixture
def on_postgresql(sites: Sites) -> Iterator[Site]:
    """A site on PostgreSQL, the only database that can be told to refuse new connections."""
    with sites("postgresql", **LONGER) as made:
        made.declare("celery", max_attempts=0)
        yield made


@contextmanager
def refusing_connections(site: Site) -> Iterator[None]:
    """Connections that are open stay open: the worker's own, but not those of its children's tasks."""
    url = urlsplit(site.url)
    name = url.path.strip("/")
    with psycopg.connect(urlunsplit(url._replace(path="/postgres")), autocommit=True) as server:
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            yield
        finally:
            server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_chain_outlives_a_database_that_refuses_connections(on_postgresql: Site, pool: str) -> None:
    site = on_postgresql
    with site.worker("-c", "1", "-P", pool) as worker:
        first, second = site.app.signature("gated", ("first", "gate")), site.app.signature("note", ("second",))
        chain(first, second.set(immutable=True)).apply_async(ignore_result=True)
        site.wait_for_diary(phase="begun")
        with refusing_connections(site):
            site.open("gate")
            site.wait_for_diary(2, phase="done")
        site.wait_for_diary(name="second")
        site.wait_until_settled()
        assert worker.stop() == 0


def test_a_retry_outlives_a_database_that_refuses_connections(on_postgresql: Site) -> None:
    site = on_postgresql
    with site.worker("-c", "1"):
        site.send("retrying", "job", "gate")
        site.wait_for_diary(retries=0)
        with refusing_connections(site):
            site.open("gate")
            site.wait_for_diary(2, retries=0)
        site.wait_for_diary(retries=1)
        site.wait_until_settled()
