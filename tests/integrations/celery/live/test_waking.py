"""An idle worker begins when there is something, not when it looks next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

pytestmark = pytest.mark.once
#: No look of the worker's own helps a test that waits no longer than PATIENCE_SECONDS.
RARELY = 100 * PATIENCE_SECONDS


def test_a_worker_that_never_looks_by_itself_is_woken_for_each_task(sites: Sites, redis_url: str) -> None:
    rare = {"SAFETY_POLL_SECONDS": RARELY, "POLL_SECONDS": RARELY, "REDIS_TIMEOUT_SECONDS": PATIENCE_SECONDS}
    with sites("postgresql", REDIS_URL=redis_url, **rare) as site, site.worker("-c", "1") as worker:
        for number in range(5):
            site.send("note", number)
            site.wait_for_diary(name=number)
        site.send("note", "later", countdown=2)
        site.wait_for_diary(name="later")
        assert worker.ask("ping", site.app)
        assert worker.stop() == 0
