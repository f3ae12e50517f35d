"""A worker that is told to stop while short tasks rush through its pool."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.journeys.site import Site

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
