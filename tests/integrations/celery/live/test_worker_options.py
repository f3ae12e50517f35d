"""Options of ``celery worker`` that change what is claimed, when, and what is given back."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]


def test_a_soft_shutdown_gives_back_what_did_not_end_in_time(site: Site) -> None:
    with site.worker(JOURNEY_SOFT_SHUTDOWN="1") as worker:
        for number in range(4):
            site.send("gated", number, "never opened")
        # Celery cancels only what its main process knows to run; it waits, for ever, for other tasks of the pool.
        wait_until(lambda: len(worker.ask("active", site.app)) == 2)

        worker.signal(signal.SIGQUIT)
        worker.wait()

    wait_until(lambda: site.states() == {"ready": 4}, site.story)
    assert all(row.attempts == 0 for row in site.rows()[2:])


def test_an_autoscaled_pool_claims_for_all_it_may_become(site: Site) -> None:
    with site.worker("--autoscale", "4,1", "-c", "1") as worker:
        for number in range(4):
            site.send("gated", number, "gate")
        site.wait_for_diary(4, phase="begun")

        site.open("gate")
        site.wait_until_settled()
        assert worker.stop() == 0

    assert Counter(line["phase"] for line in site.diary()) == {"begun": 4, "done": 4}


def test_children_are_recycled_amid_a_backlog_and_each_task_runs_once(site: Site) -> None:
    for number in range(40):
        site.send("late", number)
    with site.worker("--max-tasks-per-child", "3") as worker:
        site.wait_for_diary(40)
        site.wait_until_settled()
        assert worker.stop() == 0

    lines = site.diary()
    assert len(lines) == 40
    assert set(Counter(line["pid"] for line in lines).values()) <= {1, 2, 3}


def test_beat_inside_a_worker_publishes_what_is_due(site: Site) -> None:
    schedule = {"tick": {"task": "note", "schedule": 1.0, "args": ["tick"]}}
    with site.worker(
        "-B", "-s", str(site.directory / "beat"), "-c", "1", JOURNEY_BEAT=json.dumps(schedule)
    ) as worker:
        site.wait_for_diary(3, name="tick")
        assert worker.stop() == 0
