"""Programs that people run beside their workers: django-celery-beat, Flower."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.periodic.models import PeriodicRun
from tests.services.processes import tethered
from tests.services.redis import find_free_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site

pytestmark = pytest.mark.once
APP = "tests.journeys.project.app"
EVERY_SECOND = """
from django_celery_beat.models import IntervalSchedule, PeriodicTask
each = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
PeriodicTask.objects.create(name="tick", task="note", interval=each, args='["tick"]', priority=7)
"""


def test_the_database_scheduler_of_django_celery_beat_publishes_what_is_due(
    sites: Sites, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("django_celery_beat", reason="it does not take the newest Django yet")
    monkeypatch.setenv("JOURNEY_APPS", "django_celery_beat")
    with sites("postgresql", REDIS_URL=redis_url) as site:
        site.migrate()
        site.run("django", "shell", "-c", EVERY_SECOND)
        with (
            site.worker("-c", "1"),
            companion(site, "beat", "-S", "django", "--max-interval", "1"),
        ):
            lines = site.wait_for_diary(3, name="tick")

    assert {line["priority"] for line in lines} == {7}


@pytest.mark.parametrize("scheduler", ["celery.beat:PersistentScheduler", "django"])
def test_what_celery_beat_publishes_beside_the_workers_is_dropped_and_check_says_so(
    sites: Sites, redis_url: str, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    if scheduler == "django":
        pytest.importorskip("django_celery_beat", reason="it does not take the newest Django yet")
        monkeypatch.setenv("JOURNEY_APPS", "django_celery_beat")
    # Longer than runs of it are forgotten.
    entries = {"tick": {"task": "note", "schedule": 3.0, "args": ["tick"]}}
    monkeypatch.setenv("JOURNEY_BEAT", json.dumps(entries))
    with sites("postgresql", REDIS_URL=redis_url) as site:
        site.migrate()
        runs = PeriodicRun.objects.using(site.alias)
        with site.worker("-c", "1"):
            site.wait_for_diary(1, name="tick")
            with companion(site, "beat", "-S", scheduler, "--max-interval", "1"):
                wait_until(lambda: runs.filter(outcome="dropped").count() >= 2, site.story)
        published = set(runs.filter(message_id__isnull=False).values_list("message_id", flat=True))
        handled = {row.message_id for row in site.finished()} | {row.message_id for row in site.rows()}
        said = site.run("django", "check", "--database", "default")

    assert handled <= published
    assert "django_mq.W012" in said
    assert "dropped: tick." in said


def test_flower_sees_the_workers_and_what_they_do(sites: Sites, redis_url: str) -> None:
    port = find_free_port()
    address = ["--address=127.0.0.1", f"--port={port}"]

    def get(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}") as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            return {}  # not up yet, or not yet told of any worker

    with (
        sites("postgresql", REDIS_URL=redis_url) as site,
        site.worker("-E", "-c", "1") as worker,
        companion(site, "flower", *address, FLOWER_UNAUTHENTICATED_API="true"),
    ):

        def queues() -> Any:
            # It asks for each thing apart, and for a second: a busy worker may answer one and not yet the other.
            return get("workers?refresh=1").get(worker.name, {}).get("active_queues")

        assert wait_until(queues, site.story)[0]["name"] == "celery"

        def seen() -> bool:
            task = site.send("note", "watched")
            site.wait_until_settled()
            return get(f"task/info/{task}").get("state") == "SUCCESS"

        wait_until(seen, site.story)


@contextmanager
def companion(site: Site, *command: str, **environment: str) -> Iterator[None]:
    """Run another Celery command as long as the block lasts; its log is the site's."""
    with (site.directory / f"{command[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            tethered([sys.executable, "-m", "celery", "-A", APP, *command], death_signal=signal.SIGKILL),
            env=site.environment(**environment),
            cwd=site.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()
