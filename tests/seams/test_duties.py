"""Duties of extensions run in the maintenance, and harm no other duty."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.delivery.consumer import background, maintenance
from django_mq.delivery.consumer.maintenance import PacedMaintenance
from django_mq.models import Binding, Queue
from django_mq.seams.extension import Duty, Extension
from django_mq.stores.registry import shared_store
from tests.support.maintenance import run_maintenance
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from pytest_django import Settings

    from django_mq.stores.base import Store

pytestmark = pytest.mark.on("sqlite")

calls: list[tuple[str, int]] = []


def note(name: str, *changed: int, **others: Any) -> Duty:
    def run(store: Any, limit: int) -> int:
        calls.append((name, limit))
        return changed[min(sum(call[0] == name for call in calls), len(changed)) - 1]

    return Duty(name=name, run=run, **others)


def fail(store: Any, limit: int) -> int:
    list(Binding.objects.using(store.alias))
    raise ZeroDivisionError("no good")


go_on = threading.Event()


def wait(store: Any, limit: int) -> int:
    go_on.wait(PATIENCE_SECONDS)
    return 0


def leave(store: Any, limit: int) -> int:
    transaction.atomic(using=store.alias).__enter__()
    Queue.objects.using(store.alias).exists()
    return 0


def look(store: Any, limit: int) -> int:
    has_usual.append(store.database.connection is connections[store.alias])
    return 0


has_usual: list[bool] = []


def run_round(rounds: PacedMaintenance) -> None:
    """Run a round, and wait for the duties of extensions."""
    rounds.run_if_due()
    wait_until(lambda: not rounds.background.is_busy)


SLOW = Extension(name="slow", duties=(Duty(name="wait", run=wait),))
LEAVING = Extension(name="leaving", duties=(Duty(name="leave", run=leave), Duty(name="look", run=look)))
FAILING = Extension(name="failing", duties=(Duty(name="divide", run=fail),))
due_now: list[bool] = []
TIMED = Extension(
    name="timed",
    duties=(
        note("timed", 0, leader_only=True, is_due=lambda _store: due_now[0]),
        Duty(name="wrong", run=lambda _store, _limit: 0, is_due=lambda _store: 1 / 0 > 0),
    ),
)
PACED = Extension(
    name="paced",
    duties=(
        note("each", 1),
        note("daily", 0, interval_seconds=86400),
        note("whole", 2, 0, limit=2, interval_seconds=86400),
        note("led", 0, leader_only=True),
    ),
)


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    calls.clear()


@pytest.fixture
def store(committed_database: str) -> Store:
    """The duties of django_mq itself work in a thread, beside the test."""
    return shared_store(committed_database)


def extend(settings: Settings, *names: str) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "EXTENSIONS": [f"{__name__}.{name}" for name in names]}


def test_a_duty_runs_by_its_interval_and_again_while_it_changes_as_much_as_it_may(
    store: Store, settings: Settings
) -> None:
    extend(settings, "PACED")
    rounds = PacedMaintenance(store, 0, grace_seconds=15)

    run_round(rounds)
    assert calls == [("each", 1000), ("daily", 1000), ("whole", 2), ("led", 1000), ("whole", 2)]

    calls.clear()
    run_round(rounds)
    assert calls == [("each", 1000), ("led", 1000)]


def test_a_worker_that_is_not_the_leader_runs_the_duties_of_all_workers_at_times(
    store: Store, settings: Settings
) -> None:
    extend(settings, "PACED")
    rounds = PacedMaintenance(store, 0, grace_seconds=15)
    run_round(rounds)
    rounds.set_leader(False)
    calls.clear()

    for _ in range(maintenance.LOOK_EVERY):
        run_round(rounds)

    assert calls == [("each", 1000)]


def test_a_duty_that_says_when_it_is_due_runs_then_and_not_in_the_rounds(store: Store, settings: Settings) -> None:
    extend(settings, "TIMED")
    rounds = PacedMaintenance(store, 3600, grace_seconds=15)
    for is_due, called in ((False, []), (True, [("timed", 1000)])):
        calls.clear()
        due_now[:] = [is_due]
        rounds.run_if_due()
        wait_until(lambda: not rounds.timed.is_busy)
        assert calls == called
    rounds.set_leader(False)
    rounds.run_if_due()
    wait_until(lambda: not rounds.timed.is_busy)
    assert calls == [("timed", 1000)]


def test_a_duty_that_takes_long_holds_up_no_round(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go_on.clear()
    extend(settings, "SLOW", "PACED")
    monkeypatch.setattr(background, "LONG_SECONDS", 0.0)
    rounds = PacedMaintenance(store, 0, grace_seconds=15)

    rounds.run_if_due()
    rounds.run_if_due()

    assert (rounds.background.is_busy, calls) == (True, [])
    assert "The duty slow.wait of maintenance still runs" in caplog.text
    go_on.set()
    wait_until(lambda: not rounds.background.is_busy)
    assert ("each", 1000) in calls
    rounds.close()


def test_a_duty_after_one_that_leaves_a_transaction_has_a_connection_that_is_closed(
    store: Store, settings: Settings
) -> None:
    has_usual.clear()
    extend(settings, "LEAVING")

    run_round(PacedMaintenance(store, 0, grace_seconds=15))

    assert has_usual == [True]


def test_a_failing_duty_is_logged_and_the_others_run(
    store: Store, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"declared": {}}}
    extend(settings, "FAILING", "PACED")

    done = run_maintenance(store)

    assert (done["paced.each"], done["declared"]) == (1, 1)
    assert Queue.objects.using(store.alias).get().name == "declared"
    assert "failing.divide of maintenance failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
