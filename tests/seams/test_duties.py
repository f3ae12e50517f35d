"""Duties of extensions run in the maintenance, and harm no other duty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.consumer import maintenance
from django_mq.delivery.consumer.duties import run_maintenance
from django_mq.delivery.consumer.maintenance import PacedMaintenance
from django_mq.models import Binding, Queue
from django_mq.seams.extension import Duty, Extension
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings

    from django_mq.stores.base import Store

calls: list[tuple[str, int]] = []


def note(name: str, changed: int, **others: Any) -> Duty:
    def run(store: Any, limit: int) -> int:
        calls.append((name, limit))
        return changed

    return Duty(name=name, run=run, **others)


def fail(store: Any, limit: int) -> int:
    list(Binding.objects.using(store.alias))
    raise ZeroDivisionError("no good")


FAILING = Extension(name="failing", duties=(Duty(name="divide", run=fail),))
PACED = Extension(
    name="paced",
    duties=(
        note("each", 1),
        note("daily", 0, interval_seconds=86400),
        note("whole", 2, limit=2, interval_seconds=86400),
        note("led", 0, leader_only=True),
    ),
)


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    calls.clear()


@pytest.fixture
def store(database: str) -> Store:
    return shared_store(database)


def extend(settings: Settings, *names: str) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "EXTENSIONS": [f"{__name__}.{name}" for name in names]}


def test_a_duty_runs_by_its_interval_and_again_while_it_changes_as_much_as_it_may(
    store: Store, settings: Settings
) -> None:
    extend(settings, "PACED")
    rounds = PacedMaintenance(store, 0, grace_seconds=15)

    rounds.run_if_due()
    assert calls == [("each", 1000), ("daily", 1000), ("whole", 2), ("led", 1000)]

    calls.clear()
    rounds.run_if_due()
    assert calls == [("whole", 2), ("each", 1000), ("led", 1000)]


def test_a_worker_that_is_not_the_leader_runs_the_duties_of_all_workers_at_times(
    store: Store, settings: Settings
) -> None:
    extend(settings, "PACED")
    rounds = PacedMaintenance(store, 0, grace_seconds=15)
    rounds.run_if_due()
    rounds.set_leader(False)
    calls.clear()

    for _ in range(maintenance.LOOK_EVERY):
        rounds.run_if_due()

    assert [call for call in calls if call[0] != "whole"] == [("each", 1000)]


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
