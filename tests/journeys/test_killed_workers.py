"""Workers that die, are frozen, or are told to stop: nothing is lost, nothing stays stuck."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db.models.functions import Now

from django_mq.conf import Settings
from django_mq.delivery.consumer.lease import RENEWALS
from django_mq.models import Attempt, Message, WorkerSession
from tests.journeys.conftest import SHORT
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]
#: A killed worker's messages are ready again within this, by promise, with the settings as they come.
RECOVERY_SECONDS = 30.0


def test_a_warm_shutdown_finishes_what_runs_and_gives_back_the_rest_at_once(site: Site) -> None:
    with site.worker() as worker:
        for number in range(12):
            site.send("gated", number, "gate")
        site.wait_for_diary(2, phase="begun")
        wait_until(lambda: site.states()["claimed"] > 4)

        worker.signal(signal.SIGTERM)
        wait_until(lambda: "Warm shutdown" in worker.log)
        site.open("gate")
        code = worker.wait()

    assert code == 0
    assert Counter(site.states()) == {"ready": 10}
    assert all(row.attempts == 0 and not row.suspect for row in site.rows())
    assert not site.sessions()
    assert len(site.finished()) == 2


def log_of_a_cold_shutdown(site: Site, task: str, sent: int) -> str:
    """End a worker at once while two of these tasks run; return what it has logged."""
    with site.worker() as worker:
        for number in range(sent):
            site.send(task, number, "gate")
        # Celery cancels what it knows to be running: the child has said so, and the parent has heard it.
        wait_until(lambda: len(worker.ask("active", site.app)) == 2, lambda: f"two tasks to run; {worker.log}")

        worker.signal(signal.SIGQUIT)
        worker.wait()
        return worker.log


def test_a_cold_shutdown_gives_back_what_was_running(site: Site) -> None:
    log_of_a_cold_shutdown(site, "gated", sent=4)

    assert Counter(site.states()) == {"ready": 4}
    assert not site.sessions()


def test_a_cold_shutdown_amid_early_acknowledged_tasks_is_no_failed_attempt(site: Site) -> None:
    log = log_of_a_cold_shutdown(site, "gated_early", sent=2)

    assert "Signal handler" not in log, log
    assert not Attempt.objects.using(site.alias).exists()


def test_a_killed_workers_messages_come_back(site: Site) -> None:
    with site.worker(name="first") as first:
        for number in range(12):
            site.send("gated", number, "gate")
        site.wait_for_diary(2, phase="begun")
        first.kill()
        [dead] = WorkerSession.objects.using(site.alias).annotate(now=Now())

    # It is not renewed any more: by the database's clock its messages are free again at this instant.
    # SQLite's clock, asked like this, has milliseconds only.
    lease = timedelta(seconds=SHORT["SESSION_SECONDS"], milliseconds=1)
    assert dead.deadline <= dead.now + lease
    assert {row.session_id for row in site.rows(state=Message.Status.CLAIMED)} == {dead.id}

    with site.worker(name="second"):
        site.open("gate")
        site.wait_until_settled()
        # It was reaped as it stood: the lease of a killed worker never grows.
        assert dead.id not in {session.id for session in site.sessions()}

    assert {line["name"] for line in site.diary(phase="done")} == set(range(12))
    assert len(site.finished()) == 12


def test_a_killed_workers_messages_are_back_within_the_promise_at_worst() -> None:
    """The last heartbeat, the deadline, another worker's heartbeat, which makes it the leader; its maintenance."""
    usual = Settings()
    others_heartbeat = usual.SESSION_SECONDS / RENEWALS
    longest_round = usual.MAINTENANCE_SECONDS * 1.2

    assert usual.SESSION_SECONDS + others_heartbeat + longest_round < RECOVERY_SECONDS


def test_killed_workers_do_not_dead_letter_what_they_never_started(site: Site) -> None:
    site.declare("strict", max_attempts=2)
    with site.worker("-c", "1", "-Q", "strict", name="first") as first:
        for number in range(6):
            site.send("gated", number, "gate", queue="strict")
        site.wait_for_diary(phase="begun")
        wait_until(lambda: site.states()["claimed"] > 2)
        first.kill()

    with site.worker("-c", "1", "-Q", "strict", name="second") as second:
        # The started one is claimed alone, as are those that may have been started.
        site.wait_for_diary(2, phase="begun")
        second.kill()

    with site.worker("-c", "1", "-Q", "strict", name="third"):
        site.open("gate")
        # One look: of two, the first might see them claimed, and the second ready again.
        wait_until(lambda: not site.states().keys() & {"ready", "claimed"}, site.story)

    assert len(site.diary(phase="done")) >= 5
    assert site.states()["dead"] <= 1


def test_a_frozen_worker_loses_its_messages_and_begins_anew(site: Site) -> None:
    with site.worker("-c", "1", name="frozen") as frozen:
        site.send("gated", "slow", "gate")
        site.wait_for_diary(phase="begun")
        site.freeze(frozen)
        with site.worker("-c", "1", name="other"):
            site.wait_for_diary(2, phase="begun")
            frozen.signal(signal.SIGCONT)
            wait_until(lambda: "was reaped" in frozen.log)
            site.open("gate")
            site.wait_until_settled()

        site.send("note", "after")
        site.wait_for_diary(name="after")
        assert frozen.stop() == 0

    assert len(site.finished(type="gated")) == 1
    assert "Traceback" not in frozen.log


def test_children_that_are_replaced_all_the_time_do_not_harm_the_parents_session(site: Site) -> None:
    with site.worker("--max-tasks-per-child", "2") as worker:
        site.send("note", "first")
        site.wait_for_diary()
        [before] = wait_until(site.sessions)
        for number in range(24):
            site.send("late", number)
        site.wait_until_settled()
        [after] = site.sessions()

        assert worker.stop() == 0

    lines = site.diary(task="late")
    assert Counter(line["name"] for line in lines) == Counter(range(24))
    assert len({line["pid"] for line in lines}) > 8
    assert before.id == after.id
    assert "Traceback" not in worker.log


def test_messages_start_strictly_by_priority(site: Site) -> None:
    for options in ({"priority": 0}, {"priority": 9}, {"priority": 5}, {}, {"priority": 1}, {"priority": 8}):
        site.send("note", options.get("priority"), **options)
        site.send("note", options.get("priority"), **options)

    with site.worker("-c", "1"):
        lines = site.wait_for_diary(12)

    assert [line["name"] for line in lines] == [9, 9, 8, 8, 5, 5, None, None, 1, 1, 0, 0]


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_other_pools_work_too(site: Site, pool: str) -> None:
    with site.worker("-P", pool, "-c", "2") as worker:
        for number in range(20):
            site.send("late", number)
        site.send("note", "soon", countdown=1)
        site.send("rejecting", "rejected", False)
        site.wait_for_diary(22)
        wait_until(lambda: site.states() == {"dead": 1}, site.story)

        assert worker.stop() == 0

    assert Counter(line["name"] for line in site.diary(task="late")) == Counter(range(20))
    assert not site.sessions()


def test_a_solo_worker_that_is_told_to_stop_runs_no_further_task(site: Site) -> None:
    with site.worker("-P", "solo", "-c", "1") as worker:
        for number in range(4):
            site.send("gated", number, "gate")
        site.wait_for_diary(phase="begun")

        worker.signal(signal.SIGTERM)
        wait_until(lambda: "Warm shutdown" in worker.log)
        site.open("gate")
        assert worker.wait() == 0

    assert len(site.diary(phase="done")) == 1
    assert site.states() == {"ready": 3}
