"""A Celery worker gives back the tasks of a paused queue that wait for a process of its pool."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("task", "running"), [("gated", {"claimed": 1}), ("gated_early", {})])
def test_a_pause_takes_back_what_no_process_has_begun_and_each_task_runs_once(
    site: Site, task: str, running: dict[str, int]
) -> None:
    site.send(task, "first", "gate")
    with site.worker("-c", "1", "--prefetch-multiplier", "4") as worker:
        site.wait_for_diary(name="first")
        for number in range(3):
            site.send("late", number)
        wait_until(lambda: site.states() == Counter(claimed=3) + Counter(running), site.story)

        site.run("django", "mq_pause", "celery")
        wait_until(lambda: site.states() == Counter(ready=3, **running), site.story)
        assert worker.ask("reserved", site.app) == []
        site.run("django", "mq_cancel", "--queue", "celery", "--limit", "1", "--yes")
        site.run("django", "mq_resume", "celery")
        site.open("gate")
        site.wait_until_settled()
        assert worker.stop() == 0

    assert Counter(line["name"] for line in site.diary()) == Counter({"first": 2, 1: 1, 2: 1})
    assert [line["name"] for line in site.diary()] == ["first", "first", 1, 2]
