"""What users of other brokers complain of, each with the issues that report it.

``ELSEWHERE`` names the tests that were written for such a complaint in another file.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_mq.models import VolatileBinding, VolatileMessage
from tests.journeys.conftest import LONGER
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.site import Site
    from tests.journeys.worker import Worker

pytestmark = pytest.mark.on("postgresql")

ROOT = Path(__file__).parents[4]
JOURNEYS = "tests/journeys/test_a_workers_day.py"
KILLED = "tests/journeys/test_killed_workers.py"
OUTAGES = "tests/journeys/test_outages.py"
TRANSIENT = "tests/integrations/celery/test_transient_queues.py"
KOMBU = "tests/integrations/celery/test_kombu.py"

ELSEWHERE = {
    "a killed worker's tasks come back only after an hour (celery#4984)": (
        KILLED,
        "test_a_killed_workers_messages_come_back",
    ),
    "prefetch hoards tasks, and its counter drifts (celery#6500 #4537 #1718)": (
        JOURNEYS,
        "test_a_worker_holds_no_more_than_its_prefetch",
    ),
    "priorities are inverted, coarse, or come after the round robin (celery#4028 #8025)": (
        KILLED,
        "test_messages_start_strictly_by_priority",
    ),
    "a worker lives but consumes nothing after it reconnected (celery#8030 #8091 #10205)": (
        OUTAGES,
        "test_reconnecting_leaves_nothing_behind",
    ),
    "messages are lost when the connection is (celery#4354, kombu#305)": (
        OUTAGES,
        "test_a_restart_of_postgresql_loses_nothing",
    ),
    "what was prefetched is lost when the worker is told to stop (celery#4354, kombu#1733)": (
        KILLED,
        "test_a_warm_shutdown_finishes_what_runs_and_gives_back_the_rest_at_once",
    ),
    "a finished acks_late task is not acknowledged on warm shutdown (celery#3802)": (
        "tests/integrations/celery/live/test_stopping_amid_a_backlog.py",
        "test_what_a_child_was_given_runs_once_and_the_rest_goes_back",
    ),
    "a pause between tasks, because credit came back unnoticed (celery#4378 #7718)": (
        KOMBU,
        "test_acknowledging_in_another_thread_wakes_the_consumer",
    ),
    "'Table empty or key no longer exists' (kombu#1063, celery#2678)": (
        "tests/integrations/celery/test_declarations.py",
        "test_bindings_outlive_the_connection_and_serve_other_doors",
    ),
    "a living worker answers no ping any more (kombu#1362, celery#9237)": (
        TRANSIENT,
        "test_a_binding_that_was_swept_away_is_made_again",
    ),
    "a revoked ETA task runs after a restart (celery#4300 #8888)": (
        "tests/integrations/celery/live/test_remote_control.py",
        "test_a_revoked_task_that_is_due_later_is_gone_whoever_restarts",
    ),
    "rows are never deleted and the table grows for ever (sentry#1474, kombu#276)": (
        KOMBU,
        "test_a_consumer_receives_in_order_and_acknowledges",
    ),
    "popped is gone: a crash loses it (kombu#524 #110)": (
        KOMBU,
        "test_what_is_not_acknowledged_comes_back_when_the_connection_closes",
    ),
    "workers dead-lock, or wait for one another's rows (kombu#524 #110, celery#2177)": (
        KOMBU,
        "test_a_row_that_another_program_has_locked_holds_up_nobody",
    ),
    "an error while publishing is swallowed, and the task with it (kombu#524)": (
        "tests/integrations/celery/test_publishing.py",
        "test_a_broken_transaction_is_not_tried_again",
    ),
    "an SQL broker has no fan-out, and so neither events nor remote control": (
        TRANSIENT,
        "test_a_command_reaches_every_listener_once",
    ),
    "an SQL broker looks once a second": (
        "tests/integrations/celery/live/test_waking.py",
        "test_a_worker_that_never_looks_by_itself_is_woken_for_each_task",
    ),
    "a database connection is shared over a fork (celery#1564 #3238)": (
        KILLED,
        "test_children_that_are_replaced_all_the_time_do_not_harm_the_parents_session",
    ),
    ".delay() before COMMIT, then DoesNotExist (celery PR#8491, saleor#5457)": (
        JOURNEYS,
        "test_what_is_published_in_a_transaction_runs_if_and_only_if_it_commits",
    ),
    "self.retry() inside atomic() is rolled back with it (celery#2177)": (
        JOURNEYS,
        "test_a_retry_inside_a_transaction_outlives_the_roll_back",
    ),
}


@pytest.mark.parametrize(("file", "name"), ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_the_complaint_has_its_test(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_the_page_of_complaints_names_these_tests_and_no_other() -> None:
    page = (ROOT / "docs/explanation/problems-of-other-brokers.md").read_text()
    here = re.findall(r"^def (test_\w+)\((?:patient_)?site: Site", Path(__file__).read_text(), re.MULTILINE)

    assert sorted(re.findall(r"`(test_\w+)`", page)) == sorted([*here, *(name for _, name in ELSEWHERE.values())])


@pytest.fixture
def hasty(site: Site) -> Iterator[Worker]:
    """A worker of a project that still has the visibility timeout of its last broker, one second."""
    with site.worker(JOURNEY_VISIBILITY="1") as worker:
        yield worker


@pytest.mark.once
def test_an_eta_beyond_the_visibility_timeout_runs_once(site: Site, hasty: Worker) -> None:
    """celery#2481 #3270 #4400: one more copy each time the timeout passed."""
    site.send("note", "later", countdown=4)

    site.wait_for_diary(name="later")
    site.wait_until_settled()

    assert [line["redelivered"] for line in site.diary(name="later")] == [False]


@pytest.mark.once
def test_a_long_acks_late_task_is_not_redelivered_while_it_runs(patient_site: Site) -> None:
    """celery#5935 #5306, pretix#2058: the timeout is never renewed."""
    site = patient_site
    with site.worker(JOURNEY_VISIBILITY="1"), site.worker(name="idle", JOURNEY_VISIBILITY="1"):
        site.send("gated", "long", "gate")
        site.wait_for_diary(phase="begun")

        def outlived_its_first_deadline() -> bool:
            sessions = site.sessions()
            lives = [(one.heartbeat_at - one.started_at).total_seconds() for one in sessions]
            return all(seconds > LONGER["SESSION_SECONDS"] for seconds in lives)

        wait_until(outlived_its_first_deadline, site.story)
        site.open("gate")
        site.wait_for_diary(phase="done")
        site.wait_until_settled()

    assert Counter(line["phase"] for line in site.diary()) == {"begun": 1, "done": 1}


@pytest.mark.once
def test_tasks_with_an_eta_neither_fill_the_worker_nor_widen_its_prefetch(site: Site) -> None:
    """celery#9849 #978 #2541: each raised the prefetch count by one, up to 65,535 and then to no limit."""
    with site.worker() as worker:
        before = worker.ask("stats", site.app)["prefetch_count"]
        for number in range(100):
            site.send("note", number, countdown=3600)
        now = site.send("note", "now")
        site.wait_until_settled(correlation_id=now)

        assert worker.ask("scheduled", site.app) == []
        assert worker.ask("reserved", site.app) == []
        assert worker.ask("stats", site.app)["prefetch_count"] == before
    assert site.states() == {"scheduled": 100}


@pytest.mark.once
def test_replies_to_remote_control_leave_nothing_behind(site: Site) -> None:
    """celery#6089 #1758, kombu#294: gigabytes of ``*.reply.celery.pidbox``."""
    with site.worker() as worker:
        for _ in range(5):
            assert worker.ask("ping", site.app)
        site.app.control.purge()
        site.app.pool.force_close_all()

        bindings = VolatileBinding.objects.using(site.alias).exclude(exchange="celery.pidbox")
        messages = VolatileMessage.objects.using(site.alias)
        wait_until(lambda: not messages.exists(), lambda: f"no messages but {list(messages.values())}")
        wait_until(lambda: bindings.count() <= 1, lambda: f"no bindings but {list(bindings.values())}")


@pytest.mark.once
def test_workers_do_not_gossip(site: Site) -> None:
    """celery#5037, sentry#15760: every event to every worker."""
    with site.worker() as worker, site.worker(name="second"):
        settled = site.send("note", "something to talk about")
        site.wait_for_diary()

        assert settled
        assert "mingle" not in worker.log
        assert VolatileBinding.objects.using(site.alias).filter(exchange="celeryev").count() == 0
