"""A worker that is told to stop while short tasks rush through its pool."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from django_mq.diagnosis.state.fleet import fleet
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from django_mq.diagnosis.state.fleet import WorkerStatus
    from tests.journeys.site import Site

pytestmark = pytest.mark.on("postgresql")

BACKLOG = 300


@pytest.mark.once
@pytest.mark.parametrize("task", ["note", "late"])
def test_what_a_child_was_given_runs_once_and_the_rest_goes_back(site: Site, task: str) -> None:
    for number in range(BACKLOG):
        site.send(task, number)

    for done in (20, 80, 140):
        with site.worker() as worker:
            site.wait_for_diary(done)
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0

        # Nothing is claimed any more, and nothing that ran is to run again.
        runs = Counter(line["name"] for line in site.diary())
        assert set(runs.values()) == {1}, runs.most_common(3)
        # A machine that was fast, or that looked late, may have left nothing.
        assert site.states() == Counter(ready=BACKLOG - len(runs))


@pytest.mark.once
def test_a_worker_that_waits_for_its_last_task_is_shown_as_stopping(site: Site) -> None:
    with site.worker() as worker:
        site.send("gated", "long", "gate")
        site.wait_for_diary(phase="begun")
        worker.signal(signal.SIGTERM)

        def shown() -> list[WorkerStatus]:
            return [each for each in fleet(using=site.alias) if each.is_leaving]

        [leaving] = wait_until(shown, site.story)
        assert [consumer.queue for consumer in leaving.consumers] == ["celery"]
        site.open("gate")
        assert worker.wait() == 0
