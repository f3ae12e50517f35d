"""Ticks are published once each, ahead of their time, with the row that says so."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_mq.api import Reject, cancel
from django_mq.delivery.consumer.maintenance import PacedMaintenance
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.operator.redrives import redrive
from django_mq.engine.decisions.ends import End, Ended, RunOutcome
from django_mq.engine.decisions.periodic import jitter_of
from django_mq.models import Message
from django_mq.periodic import duty, editor
from django_mq.periodic.extension import find, note_ends
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.periodic.conftest import a_row, look_now
from tests.stores.builders import declare
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite", once="postgresql")

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def runs(alias: str) -> list[tuple[datetime, str]]:
    found = PeriodicRun.objects.using(alias).order_by("due_at", "id")
    return [(run.due_at, run.outcome) for run in found]


def work(alias: str, function: Callable[[Any], Any]) -> None:
    Worker([a_handler(function, queue="reports")], threads=1, using=alias).run(until_empty=True)


def test_a_tick_is_published_ahead_and_is_delivered_at_its_time(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    handled: list[Any] = []
    row = a_row(alias)
    first = row.next_at
    assert first is not None
    assert look_now(alias) == 0

    move(timedelta(seconds=500))
    assert look_now(alias) == 1
    assert look_now(alias) == 0
    message = Message.objects.using(alias).get()
    assert message.deliver_at == first
    work(alias, lambda message: handled.append(message.body))
    assert handled == []

    move(timedelta(seconds=101))
    work(alias, lambda message: handled.append(message.body))
    assert handled == [{"n": 1}]
    assert runs(alias) == [(first, "succeeded")]
    row.refresh_from_db()
    assert row.next_at == first + HOUR


def test_two_workers_publish_a_tick_once(alias: str, move: Callable[[timedelta], None]) -> None:
    for number in range(20):
        a_row(alias, name=f"report {number}")
    move(timedelta(seconds=500))
    begin = threading.Barrier(3)

    def race() -> None:
        begin.wait()
        for row in duty.rows(alias).order_by("id"):
            duty.tried(row)
        connections.close_all()

    threads = [threading.Thread(target=race) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while look_now(alias):  # what a locked database has refused
        pass

    assert len(runs(alias)) == 20
    assert Message.objects.using(alias).count() == 20


def test_what_fails_leaves_neither_a_message_nor_a_run(
    alias: str, move: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = a_row(alias)
    move(timedelta(seconds=500))
    monkeypatch.setattr(duty, "RUNS_KEPT", -2)  # what comes after the publication fails

    look_now(alias)
    assert (runs(alias), Message.objects.using(alias).count()) == ([], 0)

    monkeypatch.undo()
    move(timedelta(seconds=duty.RETRY_SECONDS))
    assert look_now(alias) == 1
    assert [due for due, _ in runs(alias)] == [row.next_at]


@pytest.mark.parametrize(
    ("missed", "most", "published"),
    [("skip", 100, []), ("once", 100, [2]), ("all", 100, [0, 1, 2]), ("all", 2, [1, 2])],
)
def test_missed_ticks_are_caught_up_as_declared(
    alias: str, move: Callable[[timedelta], None], missed: str, most: int, published: list[int]
) -> None:
    first = a_row(alias, missed=missed, most_missed=most).next_at
    assert first is not None

    move(timedelta(seconds=600) + 2 * HOUR + 10 * MINUTE)
    look_now(alias)

    found = [due for due, outcome in runs(alias) if outcome == ""]
    assert found == [first + number * HOUR for number in published]
    assert ((first, "missed") in runs(alias)) is (0 not in published)
    assert PeriodicMessage.objects.using(alias).get().next_at == first + 3 * HOUR


@pytest.mark.parametrize(
    ("overlap", "outcomes", "waiting"), [("skip", ["", "skipped"], 1), ("queue", ["", ""], 2)]
)
def test_a_tick_while_the_run_before_lasts_is_skipped_or_queued(
    alias: str, move: Callable[[timedelta], None], overlap: str, outcomes: list[str], waiting: int
) -> None:
    a_row(alias, overlap=overlap)
    move(timedelta(seconds=601))
    look_now(alias)
    move(HOUR - 2 * MINUTE)
    look_now(alias)
    move(2 * MINUTE)
    look_now(alias)

    assert [outcome for _, outcome in runs(alias)] == outcomes
    assert Message.objects.using(alias).count() == waiting


def test_a_tick_that_waits_for_the_run_before_is_decided_at_its_time(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    a_row(alias, overlap="skip")
    move(timedelta(seconds=601))
    look_now(alias)
    move(HOUR - timedelta(seconds=40))
    look_now(alias)

    row = PeriodicMessage.objects.using(alias).get()
    assert row.look_at == row.next_at
    assert duty._next_looks[alias] - time.monotonic() < 40


def test_a_worker_decides_at_the_time_of_a_tick_and_not_in_its_rounds(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAINTENANCE_SECONDS": 3600}
    handled: list[Any] = []
    a_row(alias, every_seconds=1.0, start_at=None, overlap="skip")
    duty._next_looks.clear()
    with running(a_handler(handled.append, queue="reports"), using=alias):
        wait_until(lambda: len(handled) >= 3)

    duty._next_looks.clear()


def test_a_tick_replaces_the_run_before(alias: str, move: Callable[[timedelta], None]) -> None:
    a_row(alias, overlap="replace")
    move(timedelta(seconds=601))
    look_now(alias)
    [first] = Message.objects.using(alias).values_list("message_id", flat=True)
    move(HOUR)
    look_now(alias)

    [second] = Message.objects.using(alias).values_list("message_id", flat=True)
    assert first != second


def test_a_tick_is_published_when_the_run_before_has_ended_in_time(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    a_row(alias, overlap="skip")
    move(timedelta(seconds=601))
    look_now(alias)
    work(alias, lambda _: None)
    move(HOUR - MINUTE)
    look_now(alias)

    assert [outcome for _, outcome in runs(alias)] == ["succeeded", ""]


def test_a_run_whose_message_was_cancelled_holds_up_nothing(alias: str, move: Callable[[timedelta], None]) -> None:
    a_row(alias, overlap="skip")
    move(timedelta(seconds=601))
    look_now(alias)
    cancel(Message.objects.using(alias).get().message_id, using=alias)
    move(HOUR - MINUTE)
    look_now(alias)

    assert [outcome for _, outcome in runs(alias)] == ["removed", ""]


def test_a_failure_and_an_old_success_are_told(alias: str, move: Callable[[timedelta], None]) -> None:
    def fail(_: Any) -> None:
        raise Reject("no")

    a_row(alias, alert_seconds=1800)
    move(timedelta(seconds=601))
    look_now(alias)
    work(alias, fail)
    assert [outcome for _, outcome in runs(alias)] == ["dead"]
    assert list(find(alias)) == []

    move(HOUR)
    assert "older than 30 min" in next(iter(find(alias))).sentence


def test_a_row_whose_queue_is_gone_is_paused_with_the_reason(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    a_row(alias, name="other", queue="gone")
    good = a_row(alias)
    move(timedelta(seconds=500))
    look_now(alias)

    row = PeriodicMessage.objects.using(alias).get(name="other")
    assert row.is_paused
    assert "gone" in row.paused_reason
    assert [finding.about for finding in find(alias)] == ["periodic message other"]
    assert PeriodicRun.objects.using(alias).get().periodic == good


def test_a_pause_takes_back_what_was_published_ahead(alias: str, move: Callable[[timedelta], None]) -> None:
    row = a_row(alias)
    first = row.next_at
    move(timedelta(seconds=500))
    look_now(alias)
    row.refresh_from_db()

    editor.pause(row, "holidays")
    assert (Message.objects.using(alias).count(), runs(alias), row.next_at) == (0, [], None)
    editor.resume(row)
    assert [due for due, _ in runs(alias)] == [first]


def test_a_pause_takes_back_a_tick_that_waits_for_its_jitter_and_an_edit_does_not(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    row = a_row(alias, jitter_seconds=3000)
    assert row.next_at is not None
    row.name = next(name for name in map(str, count()) if jitter_of(name, row.next_at, 3000) > 1000)
    row.save(update_fields=["name"])
    move(timedelta(seconds=500))
    look_now(alias)
    move(timedelta(seconds=101))

    editor.save(row, using=alias)
    assert Message.objects.using(alias).count() == 1
    editor.pause(row)
    assert (Message.objects.using(alias).count(), runs(alias)) == (0, [])


@pytest.mark.parametrize(
    ("outcome", "noted"),
    [
        (None, "succeeded"),
        (RunOutcome.SUCCEEDED, "succeeded"),
        (RunOutcome.FAILED, "dead"),
        (RunOutcome.LOST, "dead"),
        (RunOutcome.REVOKED, "removed"),
        (RunOutcome.RETRIED, ""),
    ],
)
def test_a_run_has_the_outcome_of_its_task(alias: str, outcome: RunOutcome | None, noted: str) -> None:
    row = a_row(alias)
    id_ = editor.run_now(row)
    assert id_ is not None
    text = {"type": "", "headers": "{}", "content_type": "", "content_encoding": ""}
    ended = Ended(
        row=1,
        message_id=id_,
        queue="reports",
        end=End.ACCEPTED,
        properties=None,
        body=b"",
        outcome=outcome,
        **text,
    )
    store = shared_store(alias)
    with store.database.transaction():
        note_ends(store, [ended])

    assert PeriodicRun.objects.using(alias).get().outcome == noted


def test_a_tick_that_was_delivered_before_its_time_is_not_published_again(alias: str) -> None:
    row = a_row(alias, every_seconds=60.0, start_at=datetime.now(UTC) + MINUTE)
    first, _ = runs(alias)[0]
    [message, *_] = Message.objects.using(alias).order_by("deliver_at")
    shared_store(alias).operations.deliver_now([message.pk])
    work(alias, lambda _: None)
    editor.pause(row)
    editor.resume(row)

    assert runs(alias)[0] == (first, "succeeded")
    assert [due for due, _ in runs(alias)][1:2] == [first + MINUTE]


def test_a_failed_run_stays_failed_until_its_dead_letter_has_run_again(alias: str) -> None:
    declare(shared_store(alias), "graves")
    declare(shared_store(alias), "nightly", dead_letter_queue="graves")
    errors: list[Exception] = [Reject("no"), Reject("no")]

    def fail_twice(_: Any) -> None:
        if errors:
            raise errors.pop()

    def run(queue: str, function: Callable[[Any], Any]) -> None:
        Worker([a_handler(function, queue=queue)], threads=1, using=alias).run(until_empty=True)

    row = a_row(alias, queue="nightly")
    for redriven, outcome in ((0, "dead"), (1, "succeeded")):
        id_ = editor.run_now(row)
        run("nightly", fail_twice)
        if redriven:
            assert redrive("graves", using=alias).total == 1
            run("nightly", fail_twice)
        run("graves", lambda _: None)
        assert PeriodicRun.objects.using(alias).get(message_id=id_).outcome == outcome


def test_run_now_publishes_beside_the_ticks(alias: str) -> None:
    row = a_row(alias)
    id_ = editor.run_now(row)

    assert Message.objects.using(alias).get().message_id == id_
    work(alias, lambda _: None)
    [run] = PeriodicRun.objects.using(alias).all()
    assert (run.by_hand, run.outcome, run.message_id) == (True, "succeeded", id_)


def test_an_interval_below_a_minute_is_published_for_the_next_minutes(alias: str) -> None:
    row = a_row(alias, every_seconds=10.0, start_at=None)

    published = Message.objects.using(alias).count()
    assert 14 <= published <= 16
    assert len(editor.next_ticks(row)) == 5
    editor.delete(row)
    assert Message.objects.using(alias).filter(deliver_at__gt=clock.now()).count() == 0


def test_runs_are_pruned(alias: str, monkeypatch: pytest.MonkeyPatch, move: Callable[[timedelta], None]) -> None:
    monkeypatch.setattr(duty, "RUNS_KEPT", 3)
    a_row(alias, every_seconds=60.0, start_at=None)
    for _ in range(5):
        move(MINUTE)
        look_now(alias)
        work(alias, lambda _: None)

    outcomes = Counter(outcome for _, outcome in runs(alias))
    assert outcomes["succeeded"] == 4
    assert 2 <= outcomes[""] <= 3


def test_an_idle_leader_asks_once_a_minute(alias: str, django_assert_num_queries: Any) -> None:
    a_row(alias)
    look_now(alias)
    store = shared_store(alias)
    assert not store.maintenance.due_duties()["periodic.publish"]

    with django_assert_num_queries(0, using=alias):
        assert not duty.is_time(store)
    assert duty._next_looks[alias] - time.monotonic() > 30


def test_the_leader_decides_in_time_on_a_row_that_another_process_has_changed(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    row = a_row(alias, overlap="skip")
    move(timedelta(seconds=601))
    look_now(alias)
    duty._next_looks[alias] = time.monotonic() + 60  # it has looked a moment before the change
    row.start_at = clock.now() + timedelta(seconds=14)
    editor.save(row, using=alias)
    rounds = PacedMaintenance(shared_store(alias), 3600, grace_seconds=15)
    rounds.run_if_due()
    rounds.run_if_due()
    wait_until(lambda: not rounds.timed.is_busy)

    assert duty._next_looks[alias] - time.monotonic() < 15
    rounds.close()


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_a_clock_that_jumps_both_ways_has_each_tick_once(
    alias: str, move: Callable[[timedelta], None], overlap: str
) -> None:
    first = a_row(alias, missed="all", overlap=overlap).next_at
    assert first is not None
    for jump in (10 * MINUTE, 3 * HOUR, -2 * HOUR, -2 * HOUR, HOUR, MINUTE, 4 * HOUR, -HOUR, 2 * HOUR):
        clock.offset += jump
        look_now(alias)
        work(alias, lambda _: None)
        look_now(alias)

    due = [due for due, _ in runs(alias)]
    assert due == [first + number * HOUR for number in range(len(due))]
    assert len(due) >= 5
    assert Message.objects.using(alias).count() == 0 or overlap == "queue"
