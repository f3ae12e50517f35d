"""One worker of two processes on each database, and what Celery promises of its tasks."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_mq.models import Attempt, History, Message, Queue
from tests.journeys.conftest import WITH_RABBITMQ, made_for
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site
    from tests.journeys.worker import Worker

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture(scope="module", params=WITH_RABBITMQ)
def site(request: pytest.FixtureRequest, sites: Sites) -> Iterator[Site]:
    """One site for all tests of this module."""
    with made_for(request, sites, {}) as made:
        made.declare("brittle", max_attempts=3)
        made.declare("once", max_attempts=1)
        made.declare("graves")
        made.declare("buried", dead_letter_queue=_queue(made, "graves"))
        yield made


def _queue(site: Site, name: str) -> Queue:
    return Queue.objects.using(site.alias).get(name=name)


@pytest.fixture(scope="module")
def worker(site: Site) -> Iterator[Worker]:
    """The worker they share."""
    with site.worker("-Q", "celery,brittle,once,buried,gone") as started:
        yield started


@pytest.fixture
def here(site: Site) -> None:
    """What the test looks at is not in the database if the tasks run on RabbitMQ."""
    if site.is_bridged:
        pytest.skip("RabbitMQ has what its workers hold, retry and reject")


@pytest.fixture
def name(worker: Worker) -> str:
    """What the test's tasks are called in the diary."""
    assert worker.running
    return uuid4().hex


def test_a_task_runs_and_leaves_one_row_of_history(site: Site, name: str) -> None:
    task_id = site.send("note", name)

    site.wait_for_diary(name=name)
    site.wait_until_settled(correlation_id=task_id)

    [row] = site.finished(correlation_id=task_id)
    assert row.outcome == (History.Outcome.FORWARDED if site.is_bridged else History.Outcome.ACCEPTED)
    assert row.type == "note"


def test_what_is_published_in_a_transaction_runs_if_and_only_if_it_commits(site: Site, name: str) -> None:
    with transaction.atomic(using=site.alias):
        site.send("note", name)
        transaction.set_rollback(True, using=site.alias)
    with transaction.atomic(using=site.alias):
        site.send("note", name)
        last = site.send("note", name)

    site.wait_for_diary(2, name=name)
    site.wait_until_settled(correlation_id=last)

    assert len(site.diary(name=name)) == 2


def test_a_countdown_is_held_by_the_database_and_not_by_the_worker(site: Site, worker: Worker, name: str) -> None:
    published = time.time()
    # Looked at before the commit: afterwards a slow machine might find the first one due.
    with transaction.atomic(using=site.alias):
        soon = site.send("note", name, countdown=2)
        later = site.send("note", name, countdown=3600)
        assert site.states(correlation_id__in=[soon, later]) == {"scheduled": 2}
    held = worker.ask("scheduled", site.asking)
    [line] = site.wait_for_diary(name=name)

    assert held == []
    assert line["at"] >= published + 2
    assert site.states(correlation_id=later) == {"scheduled": 1}


def test_an_eta_in_the_past_runs_at_once(site: Site, name: str) -> None:
    site.send("note", name, eta=datetime.now(UTC) - timedelta(hours=1))

    assert site.wait_for_diary(name=name)


def test_a_retry_with_a_countdown_waits_in_the_database(site: Site, name: str) -> None:
    task_id = site.send("stubborn", name, 1)

    lines = site.wait_for_diary(3, name=name)
    site.wait_until_settled(correlation_id=task_id)

    assert [line["retries"] for line in lines] == [0, 1, 2]
    assert lines[1]["at"] - lines[0]["at"] >= 0.9
    # RabbitMQ has the retries of its workers.
    assert len(site.finished(correlation_id=task_id)) == (1 if site.is_bridged else 3)


def test_a_retry_inside_a_transaction_outlives_the_roll_back(site: Site, name: str) -> None:
    site.send("retry_in_transaction", name)

    lines = site.wait_for_diary(2, name=name)
    wait_until(lambda: Group.objects.using(site.alias).filter(name=f"{name} 1").exists())

    assert [line["retries"] for line in lines] == [0, 1]
    assert not Group.objects.using(site.alias).filter(name=f"{name} 0").exists()


@pytest.mark.usefixtures("here")
def test_a_rejected_task_becomes_a_dead_letter(site: Site, name: str) -> None:
    task_id = site.send("rejecting", name, False)

    wait_until(lambda: site.states(correlation_id=task_id) == {"dead": 1})

    [row] = site.rows(correlation_id=task_id)
    assert row.dead_reason == "rejected"
    assert len(site.diary(name=name)) == 1


@pytest.mark.usefixtures("here")
def test_a_rejected_task_goes_to_the_dead_letter_queue(site: Site, name: str) -> None:
    task_id = site.send("rejecting", name, False, queue="buried")

    wait_until(lambda: site.states(correlation_id=task_id, queue__name="graves") == {"ready": 1})

    [row] = site.rows(correlation_id=task_id)
    assert row.headers["x-origin-queue"] == "buried"
    assert row.headers["x-dead-reason"] == "rejected"


@pytest.mark.usefixtures("here")
def test_a_task_that_is_requeued_too_often_ends_as_a_dead_letter(site: Site, name: str) -> None:
    task_id = site.send("rejecting", name, True, queue="brittle")

    wait_until(lambda: site.states(correlation_id=task_id) == {"dead": 1})

    lines = site.diary(name=name)
    assert [line["redelivered"] for line in lines] == [False, True, True]
    assert site.rows(correlation_id=task_id)[0].dead_reason == "requeued too often"


def test_a_task_whose_process_was_killed_comes_back(site: Site, name: str) -> None:
    task_id = site.send("fatal_once", name)

    lines = site.wait_for_diary(2, name=name)
    site.wait_until_settled(correlation_id=task_id)

    assert [line["redelivered"] for line in lines] == [False, True]


@pytest.mark.usefixtures("here")
def test_a_failed_task_is_settled_and_its_traceback_kept(site: Site, name: str) -> None:
    task_id = site.send("failing", name)

    site.wait_until_settled(correlation_id=task_id)
    attempt = wait_until(lambda: Attempt.objects.using(site.alias).filter(correlation_id=task_id).first())

    assert attempt.error == "ValueError"
    assert name in attempt.traceback


@pytest.mark.usefixtures("here")
def test_celery_acknowledges_or_retries_failed_tasks_whatever_their_queues_maximum(site: Site, name: str) -> None:
    failed = [site.send(task, name, queue="once") for task in ("failing", "failing_late")]
    retried = site.send("stubborn", name, 0, queue="once")

    lines = site.wait_for_diary(5, name=name)
    site.wait_until_settled(correlation_id__in=[*failed, retried])

    assert sorted(line["retries"] for line in lines if line["task"] == "stubborn") == [0, 1, 2]
    finished = site.finished(correlation_id__in=[*failed, retried])
    assert [row.outcome for row in finished] == [History.Outcome.ACCEPTED] * 5


@pytest.mark.usefixtures("here")
def test_a_failed_task_that_celery_does_not_acknowledge_is_a_dead_letter_before_the_maximum(
    site: Site, name: str
) -> None:
    task_id = site.send("failing_kept", name, queue="brittle")

    wait_until(lambda: site.states(correlation_id=task_id) == {"dead": 1})

    assert site.rows(correlation_id=task_id)[0].dead_reason == "rejected"
    assert len(site.diary(name=name)) == 1


@pytest.mark.usefixtures("here")
def test_an_unknown_task_becomes_a_dead_letter_and_stops_nobody(site: Site, name: str) -> None:
    unknown = site.send("no.such.task", name)
    site.send("note", name)

    site.wait_for_diary(name=name)
    wait_until(lambda: site.states(correlation_id=unknown) == {"dead": 1})

    assert site.rows(correlation_id=unknown)[0].dead_reason == "unknown task no.such.task"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("headers", "[1, 2]", "corrupt: The headers are a JSON list, not an object."),
        ("properties", '"text"', "corrupt: The properties are a JSON str, not an object."),
        (
            "properties",
            '{"delivery_info": 7}',
            "corrupt: The delivery_info among the properties is not an object.",
        ),
    ],
)
def test_a_corrupt_row_becomes_a_dead_letter_and_stops_nobody(
    site: Site, name: str, column: str, value: str, reason: str
) -> None:
    corrupt = damaged(site, name, column, value)
    site.send("note", name)

    site.wait_for_diary(name=name)
    wait_until(lambda: site.states(correlation_id=corrupt) == {"dead": 1})

    assert site.rows(correlation_id=corrupt)[0].dead_reason == reason


# A worker of Celery's own does not outlive each of these.
@pytest.mark.usefixtures("here")
@pytest.mark.once
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("headers", '{"task": "no.such.task"}'),
        ("headers", '{"task": ["note"], "id": 7}'),
        ("headers", '{"task": "note"}'),
        ("headers", "{}"),
        ("body", b"\xff\x00 no JSON"),
    ],
)
def test_a_message_that_makes_no_sense_to_celery_stops_nobody(
    site: Site, worker: Worker, name: str, column: str, value: str | bytes
) -> None:
    odd = damaged(site, name, column, value)
    site.send("note", name)

    site.wait_for_diary(name=name)
    wait_until(lambda: not site.states(correlation_id=odd)["claimed"])

    assert worker.running


def damaged(site: Site, name: str, column: str, value: str | bytes) -> str:
    """Publish a task and spoil its row before anybody can claim it."""
    with transaction.atomic(using=site.alias):
        task_id = site.send("note", f"damaged {name}")
        with connections[site.alias].cursor() as cursor:
            cursor.execute(
                f"UPDATE {Message._meta.db_table} SET {column} = %s WHERE correlation_id = %s", [value, task_id]
            )
    return task_id


def test_an_expired_task_is_revoked_by_the_worker(site: Site, name: str) -> None:
    task_id = site.send("note", name, expires=datetime.now(UTC) - timedelta(minutes=1))

    site.wait_until_settled(correlation_id=task_id)

    assert not site.diary(name=name)


@pytest.mark.usefixtures("here")
def test_a_worker_holds_no_more_than_its_prefetch(site: Site, worker: Worker, name: str) -> None:
    for _ in range(30):
        site.send("gated", name, f"gate of {name}")
    try:
        site.wait_for_diary(2, name=name)
        # Prefetch is refilled by halves: more than half of the window is held. What quick tasks before made
        # it claim beyond the window goes back.
        wait_until(lambda: holds_its_window(site))
        assert worker.ask("ping", site.app)  # its loop has turned since

        held = wait_until(lambda: holds_its_window(site))
    finally:
        site.open(f"gate of {name}")

    assert held["claimed"] + held["ready"] == 30
    site.wait_until_settled(type="gated")
    assert len(site.diary(name=name, phase="done")) == 30


def holds_its_window(site: Site) -> Counter[str] | None:
    """Return the states of the gated tasks if the worker holds what it should."""
    states = site.states(type="gated")
    return states if 4 < states["claimed"] <= 8 else None


@pytest.mark.usefixtures("here")
@pytest.mark.once
def test_the_commands_of_celery_work_from_another_process(site: Site, worker: Worker) -> None:
    to_it = ("--timeout", str(PATIENCE_SECONDS), "--destination", worker.name)

    assert f"{worker.name}: OK" in site.celery("status", *to_it)
    assert "pong" in site.celery("inspect", *to_it, "ping")
    assert "'name': 'brittle'" in site.celery("inspect", *to_it, "active_queues")


@pytest.mark.usefixtures("here")
@pytest.mark.once
def test_purge_removes_what_waits_and_counts_it(site: Site, worker: Worker) -> None:
    for _ in range(3):
        site.send("note", "purged", queue="idle")
    site.send("note", "purged", queue="idle", countdown=60)

    said = site.celery("purge", "-f", "-Q", "idle")

    assert "Purged 4 messages" in said
    assert not site.rows(queue__name="idle")
