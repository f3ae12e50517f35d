"""Live workers whose tasks cannot publish what must follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.models import Queue

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = pytest.mark.once


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_a_task_whose_retry_is_refused_runs_again_until_it_is_not(site: Site, pool: str) -> None:
    site.declare("celery", max_attempts=0)
    site.send("retry_in_transaction", "job")
    queue = Queue.objects.using(site.alias)
    queue.update(closed=True)
    with site.worker("-c", "1", "-P", pool):
        site.wait_for_diary(2, name="job", retries=0)
        queue.update(closed=False)
        site.wait_for_diary(name="job", retries=1)
        site.wait_until_settled()
