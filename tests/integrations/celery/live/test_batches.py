"""Batches of Celery tasks: they count by how their runs end, and a task that is retried is one member."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.batches.models import MessageBatch
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]
BEGIN = """
from django_mq.api import batch
from tests.journeys.project import tasks
with batch("tasks", on_complete=tasks.plain.si("complete"), on_failure=tasks.plain.si("failure")):
    for number in range(2):
        tasks.stubborn.apply_async((f"retried {number}", 0), ignore_result=True)
    tasks.retrying.delay("retried late", "gate")
    tasks.failing.apply_async(("wrong",), ignore_result=True)
    tasks.failing_late.delay("wrong late")
    tasks.failing_kept.delay("dead letter")
    tasks.spreading.delay("one")
    tasks.plain.apply_async(("revoked",), countdown=3600, task_id="revoked", ignore_result=True)
"""


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_tasks_count_by_the_outcomes_of_their_runs(site: Site, pool: str) -> None:
    site.declare("celery", max_attempts=1)
    site.run("django", "shell", "-c", BEGIN)
    batches = MessageBatch.objects.using(site.alias)
    with site.worker("-c", "2", "-P", pool):
        site.open("gate")
        site.app.control.revoke("revoked")
        wait_until(batches.exclude(complete_at=None).exists, site.story)
        site.wait_for_diary(1, name="complete")
        site.wait_for_diary(1, name="failure")
    found = batches.get()
    assert (found.state, found.counts) == ("failed", (0, 5, 3, 1))
    assert [len(site.diary(name=f"retried {number}")) for number in range(2)] == [3, 3]
