"""A worker whose tasks are green threads of one process."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]
TASKS = 20
BACKLOG = 200


def test_green_threads_work_side_by_side_and_give_back_what_they_did_not_begin(site: Site) -> None:
    with site.worker("-P", "gevent", "-c", str(TASKS)) as worker:
        for number in range(2 * TASKS):
            site.send("gated", number, "gate")
        begun = site.wait_for_diary(TASKS, phase="begun")
        assert len({line["pid"] for line in begun}) == 1

        # While they wait the worker listens, and its session is renewed.
        assert worker.ask("ping", site.app)
        [session] = site.sessions()
        wait_until(lambda: site.sessions()[0].heartbeat_at > session.heartbeat_at, site.story)
        assert site.sessions()[0].id == session.id

        site.open("gate")
        site.wait_until_settled()
        site.send("note", "soon", countdown=1)
        site.send("stubborn", "thrice", 0)
        site.wait_for_diary(name="soon")
        site.wait_for_diary(3, name="thrice")
        site.wait_until_settled()

        for number in range(BACKLOG):
            site.send("late", number)
        site.wait_for_diary(10, task="late")
        assert worker.stop() == 0

    assert Counter(line["name"] for line in site.diary(phase="done")) == Counter(range(2 * TASKS))
    runs = Counter(line["name"] for line in site.diary(task="late"))
    assert set(runs.values()) == {1}
    assert site.states()["ready"] == site.states().total() == BACKLOG - len(runs)
    assert not site.sessions()
    assert "Traceback" not in worker.log


def test_a_killed_worker_of_green_threads_gives_everything_back(site: Site) -> None:
    with site.worker("-P", "gevent", "-c", "4", name="first") as first:
        for number in range(8):
            site.send("gated", number, "gate")
        site.wait_for_diary(4, phase="begun")
        first.kill()

    site.open("gate")
    with site.worker("-P", "gevent", "-c", "4", name="second"):
        site.wait_until_settled()

    assert {line["name"] for line in site.diary(phase="done")} == set(range(8))
