"""A worker of Celery takes the tasks of a queue that keys share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

pytestmark = pytest.mark.once


def test_a_worker_runs_the_tasks_of_keys_in_turn(sites: Sites) -> None:
    with sites("postgresql", QUEUES={"celery": {"fair_by": "name", "due_order": "keep_place"}}) as site:
        for name in ("a", "a", "a", "b", "b", "c"):
            site.send("note", headers={"name": name}, kwargs={"name": name})
        for name in ("d", "d"):
            site.app.send_task("note", kwargs={"name": name}, ignore_result=True)
        with site.worker("-c", "1", "--prefetch-multiplier", "1"):
            site.wait_for_diary(count=8)
        assert [line["name"] for line in site.diary()] == ["a", "b", "c", "d", "a", "b", "d", "a"]
