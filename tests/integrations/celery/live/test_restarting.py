"""A Celery worker that SIGHUP restarts leaves nothing of the one that it was."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from django_mq.models import WorkerSession
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_restarted_worker_runs_no_task_twice_and_its_former_session_is_closed(site: Site, pool: str) -> None:
    site.send("gated", "first", "gate")
    for number in range(6):
        site.send("late", number)
    with site.worker("-c", "1", "-P", pool) as worker:
        site.wait_for_diary(name="first")
        former = WorkerSession.objects.using(site.alias).get()

        worker.signal(signal.SIGHUP)
        wait_until(lambda: "Restarting celery worker" in worker.log)
        site.open("gate")
        wait_until(lambda: worker.log.count(" ready.") == 2, lambda: worker.log)
        assert not WorkerSession.objects.using(site.alias).filter(pk=former.pk).exists()
        site.wait_until_settled()
        assert worker.stop() == 0

    assert [line["name"] for line in site.diary()] == ["first", "first", *range(6)]
