"""A Celery worker whose handlers cannot be loaded does not start: its queues would be served by no process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

APP = "tests.integrations.celery.live.broken"


@pytest.mark.once
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("import", "a_module_that_is_not_installed"),
        ("undeclared", "There is no queue 'ordres'; declare it in DJANGO_MQ['QUEUES']"),
        ("twice", "Queue 'orders' already has a handler, builtins.print"),
    ],
)
def test_a_worker_whose_handlers_cannot_be_loaded_ends_and_says_why(sites: Sites, fault: str, reason: str) -> None:
    with sites("sqlite") as site:
        worker = site.worker("-P", "solo", JOURNEY_APPS=APP, BROKEN=fault)
        worker.start()
        try:
            code = worker.wait()
        finally:
            worker.kill()

    assert code == 1
    assert reason in worker.log.splitlines()[-1]
    assert "ready." not in worker.log


def test_a_worker_that_is_to_run_no_handlers_does_not_load_them(sites: Sites) -> None:
    with (
        sites("sqlite", CELERY_HANDLERS=False) as site,
        site.worker("-P", "solo", JOURNEY_APPS=APP, BROKEN="import") as worker,
    ):
        assert worker.stop() == 0
