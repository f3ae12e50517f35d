"""A Celery task has its slot until it ends, also if it is acknowledged when it begins."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from django_mq.models import BegunTask
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]
LIMITED = ("--include", "tests.integrations.celery.live.limited")


def begun(site: Site) -> list[str]:
    return [line["name"] for line in site.diary(phase="begun")]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize("task", ["gated_early", "gated"])
def test_the_next_of_a_key_begins_when_the_one_before_has_ended(site: Site, task: str, pool: str) -> None:
    for name in ("a", "a", "a", "b"):
        site.send(task, name, name)
    with site.worker("-Q", "celery", "-c", "4", "-P", pool, *LIMITED) as worker:
        wait_until(lambda: sorted(begun(site)) == ["a", "b"], site.story)
        wait_until(lambda: site.states().get("parked") == 2, site.story)
        site.open("b")
        wait_until(lambda: [line["name"] for line in site.diary(phase="done")] == ["b"], site.story)
        site.send("note", "c")
        site.wait_for_diary(name="c")
        assert sorted(begun(site)) == ["a", "b"]
        site.open("a")
        wait_until(lambda: len(site.diary(phase="done")) == 4, site.story)
        site.wait_until_settled()
        wait_until(lambda: not BegunTask.objects.using(site.alias).exists(), site.story)
        assert worker.stop() == 0

    ends = [(line["phase"], line["name"]) for line in site.diary() if line["name"] == "a"]
    assert ends == [("begun", "a"), ("done", "a")] * 3


def test_a_killed_child_and_a_killed_worker_free_the_slot(site: Site) -> None:
    for _ in range(3):
        site.send("gated_early", "a", "a")
    with site.worker("-Q", "celery", "-c", "2", *LIMITED):
        site.wait_for_diary(phase="begun")
        os.kill(site.diary()[0]["pid"], signal.SIGKILL)
        wait_until(lambda: len(begun(site)) == 2, site.story)
        with site.worker("-Q", "celery", "-c", "2", *LIMITED, name="second") as second:
            second.wait_until_ready()
            assert BegunTask.objects.using(site.alias).count() == 1
            site.open("a")
            site.wait_until_settled()
            assert second.stop() == 0
    assert begun(site) == ["a"] * 3


def test_the_rate_of_a_task_holds_over_all_workers_and_remote_control_changes_it_for_all(site: Site) -> None:
    options = ("-Q", "rare", "-c", "2")
    with site.worker(*options, name="one") as one, site.worker(*options, name="two") as two:
        for number in range(10):
            site.send("rare", number, queue="rare")
        wait_until(lambda: site.states() == {"parked": 9}, site.story)
        assert len(site.wait_for_diary()) == 1

        begin = time.time()
        site.app.control.rate_limit("rare", "5/s")
        lines = site.wait_for_diary(10)
        # A worker that is killed takes no rate with it.
        one.kill()
        site.app.control.rate_limit("rare", "1/h", destination=[two.name], reply=True, timeout=PATIENCE_SECONDS)
        for name in ("last", "kept"):
            site.send("rare", name, queue="rare")
        site.wait_for_diary(11)
        wait_until(lambda: site.states() == {"parked": 1}, site.story)
        assert two.stop() == 0

    ends = sorted(line["at"] for line in lines[1:])
    assert len(ends) <= 1 + 5 * (ends[-1] - begin)
