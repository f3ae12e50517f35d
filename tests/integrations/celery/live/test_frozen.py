"""A worker that was suspended for longer than its deadline, and goes on when others have done its work."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_that_goes_on_begins_nothing_that_was_finished_meanwhile(site: Site, pool: str) -> None:
    with site.worker("-P", pool, "-c", "1", name="first") as first:
        for name in "abcd":
            site.send("gated", name, "gate")
        site.wait_for_diary(1, phase="begun")
        wait_until(lambda: site.states()["claimed"] >= 3, site.story)
        site.freeze(first)
        frozen = site.sessions()[0].id

        site.open("gate")
        with site.worker("-c", "1", name="second") as second:
            site.wait_until_settled()
            assert second.stop() == 0
        first.signal(signal.SIGCONT)
        site.send("note", "after")
        site.wait_for_diary(1, name="after")
        site.wait_until_settled()

        assert frozen not in {session.id for session in site.sessions()}
        runs = Counter(line["name"] for line in site.diary(phase="begun"))
        assert {name: runs[name] for name in "bcd"} == dict.fromkeys("bcd", 1)
        assert first.stop() == 0
