"""Maintenance: what is due, dead, expired or old is seen to, by any process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_mq.api import publish
from django_mq.delivery.consumer import duties, maintenance, sidecar
from django_mq.delivery.consumer.duties import run_maintenance_to_the_end
from django_mq.delivery.consumer.maintenance import (
    PacedMaintenance,
    TakeOver,
    maintain,
)
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.engine.states import State
from django_mq.errors import StoreUnavailable
from django_mq.models import History, Message, Operation, Queue
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.sql import declared
from tests.support.maintenance import run_maintenance
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django import Settings

    from django_mq.stores.base import Store
    from tests.delivery.conftest import Ear

pytestmark = pytest.mark.on("sqlite", once="postgresql")

INFO = SessionInfo(name="gone", kind="native", host="host", pid=1, version="1")
LATER = timedelta(hours=1)


@pytest.fixture(autouse=True)
def only_duties_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no round begin what outlives it, in a thread: what it writes would be there for other tests."""
    monkeypatch.setattr(maintenance, "added_duties", tuple)


def test_a_dead_workers_messages_are_given_back_and_hinted_at(store: Any, orders: str, ear: Ear) -> None:
    publish(orders)
    session = store.sessions.open(INFO, deadline_seconds=15)
    store.claims.claim(session, ClaimRequest(queues=(orders,), credit=1))
    assert ear.heard <= {"q:orders"}
    store.database.clock_offset = LATER

    done = run_maintenance(store)

    assert (done["reaped"], done["released"]) == (1, 1)
    assert ear.heard == {"q:orders"}


def test_due_messages_are_made_ready_and_hinted_at(store: Any, database: str, orders: str, ear: Ear) -> None:
    publish(orders, delay=60)
    assert run_maintenance(store)["promoted"] == 0
    store.database.clock_offset = LATER

    assert run_maintenance(store)["promoted"] == 1

    assert Message.objects.using(database).get().state == State.READY
    assert ear.heard == {"q:orders"}


def test_expired_messages_are_finished_as_expired(store: Any, database: str, orders: str) -> None:
    publish(orders, ttl=60)
    store.database.clock_offset = LATER

    assert run_maintenance(store)["expired"] == 1

    assert History.objects.using(database).get().outcome == History.Outcome.EXPIRED


def test_a_worker_asks_the_messages_that_are_there_by_declared_selectors(
    store: Any, database: str, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for region in ("eu", "us", "eu"):
        publish(orders, headers={"region": region})
    Queue.objects.using(database).update(selectors="region = 'eu'")
    monkeypatch.setattr(declared, "PART", 1)
    monkeypatch.setattr(declared, "ROUND_SECONDS", -1.0)  # a part in each round
    rounds = PacedMaintenance(store, 0, grace_seconds=1)

    rounds.run_if_due()
    assert not Message.objects.using(database).filter(meets__isnull=False).exists()
    store.database.clock_offset = LATER
    for _ in range(5):
        rounds.run_if_due()

    met = list(Message.objects.using(database).order_by("id").values_list("meets", flat=True))
    has_index = database != "mariadb"
    assert Queue.objects.using(database).get().covered is has_index
    assert (met[0] == met[2], met[0] != met[1], None in met) == (True, has_index, not has_index)


def test_old_history_is_pruned(store: Any, database: str, orders: str) -> None:
    publish(orders, ttl=0)
    run_maintenance(store)
    History.objects.using(database).update(finished_at=datetime(2001, 1, 1, tzinfo=UTC))

    assert run_maintenance(store)["pruned"] == 1


def test_nothing_to_do_wakes_nobody(store: Store, orders: str, ear: Ear) -> None:
    publish(orders)
    run_maintenance(store)  # sums up the minutes before
    ear.heard  # noqa: B018 - the publisher's own hint, if it is out already

    done = run_maintenance(store)

    del done["rollups.sum_up.summed_up"], done["tiles.sample"]  # a minute may have ended since
    assert set(done.values()) == {0}
    assert ear.heard == set()


def test_to_the_end_means_more_than_one_chunk(store: Any, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expire = replace(next(duty for duty in duties.DUTIES if duty.name == "expire"), limit=2)
    monkeypatch.setattr(duties, "DUTIES", (expire,))
    for _ in range(5):
        publish(orders, ttl=1)
    store.database.clock_offset = LATER

    assert run_maintenance_to_the_end(store)["expired"] == 5


def test_the_first_round_declares_the_queues_of_the_settings(store: Store, database: str, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"declared": {}}}

    PacedMaintenance(store, 60, grace_seconds=15).run_if_due()

    assert Queue.objects.using(database).get().name == "declared"


def test_a_round_waits_for_its_time(store: Any, orders: str) -> None:
    publish(orders, ttl=60)
    rounds = PacedMaintenance(store, 3600, grace_seconds=15)
    rounds.run_if_due()
    store.database.clock_offset = LATER

    rounds.run_if_due()

    assert store.queues.counts()[orders].ready == 1


def test_after_an_outage_nobody_is_reaped_for_one_deadline(store: Any) -> None:
    store.sessions.open(INFO, deadline_seconds=15)
    store.database.clock_offset = LATER
    rounds = PacedMaintenance(store, 0, grace_seconds=3600)

    rounds.pause_after_outage()
    rounds.run_if_due()

    assert run_maintenance(store)["reaped"] == 1


def test_an_outage_is_waited_out(store: Any, orders: str, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAINTENANCE_SECONDS": 0.01}
    publish(orders, ttl=0)
    whole, stopping = type(store.maintenance), threading.Event()

    class Away(whole):  # type: ignore[misc, valid-type]
        def due_duties(self) -> Any:
            self.__class__ = whole
            raise StoreUnavailable("out for lunch")

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if store.queues.counts()[orders].total == 0:
                stopping.set()
            return stopping.wait(timeout)

        def is_set(self) -> bool:
            return stopping.is_set()

    store.maintenance.__class__ = Away
    maintain(store, Watched())

    assert "out for lunch" in caplog.text


def test_only_the_eldest_does_every_round(store: Any, orders: str) -> None:
    rounds = PacedMaintenance(store, 1e-9, grace_seconds=15)
    rounds.run_if_due()
    rounds.set_leader(False)
    publish(orders, ttl=0)

    rounds.run_if_due()
    left = store.queues.counts()[orders].ready
    for _ in range(maintenance.LOOK_EVERY):
        rounds.run_if_due()

    assert (left, store.queues.counts()[orders].ready) == (1, 0)


def test_the_eldest_takes_operations_over_that_make_no_progress(
    store: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []

    def begin(take_over: TakeOver) -> None:
        begun.append(take_over)

    monkeypatch.setattr(TakeOver, "begin", begin)
    now = datetime.now(UTC)
    for status in ("running", "done"):
        Operation.objects.using(database).create(status=status, newest=9, created_at=now, beat_at=now)
    rounds = PacedMaintenance(store, 1e-9, grace_seconds=15)

    rounds.run_if_due()
    assert not begun
    store.database.clock_offset = timedelta(seconds=STALLED_SECONDS + 1)
    rounds.run_if_due()
    assert len(begun) == 1

    rounds.set_leader(False)
    for _ in range(maintenance.LOOK_EVERY):
        rounds.run_if_due()
    assert len(begun) == 1


def test_settings_without_a_module_cannot_be_given_to_another_process(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.USE_TZ = True  # any change hides the module
    take_over = TakeOver("default")

    take_over.begin()
    take_over.begin()

    assert caplog.text.count("run manage.py mq_operations --take-over") == 1


def test_where_processes_fail_the_next_one_is_begun_later_each_time(
    caplog: pytest.LogCaptureFixture, settings: Settings
) -> None:
    # Settings that a fixture of the session has overridden say no module.
    settings.SETTINGS_MODULE = os.environ["DJANGO_SETTINGS_MODULE"]
    now = [0.0]
    take_over = TakeOver("elsewhere", clock=lambda: now[0])

    def begun_at(seconds: float) -> int:
        now[0] = seconds
        take_over.begin()
        begun = caplog.text.count("goes on with it")
        wait_until(lambda: take_over.look_after() or caplog.text.count("has ended with exit code 1") == begun)
        return begun

    assert [begun_at(number * STALLED_SECONDS) for number in range(7)] == [1, 1, 2, 2, 2, 2, 3]


def test_a_program_that_embeds_python_starts_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("/usr/sbin/uwsgi", "", None):
        monkeypatch.setattr(sys, "executable", name)
        assert sidecar.start("keyword", stdin=subprocess.DEVNULL).wait() == 0


def test_whoever_becomes_the_eldest_begins_at_once(store: Any, orders: str) -> None:
    rounds = PacedMaintenance(store, 3600, grace_seconds=15)
    rounds.run_if_due()
    rounds.set_leader(False)
    publish(orders, ttl=0)

    rounds.set_leader(True)
    rounds.run_if_due()

    assert store.queues.counts()[orders].ready == 0


def test_old_history_goes_batch_by_batch_with_heartbeats_in_between(
    store: Any, database: str, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prune = replace(next(duty for duty in duties.DUTIES if duty.name == "prune"), limit=2)
    for _ in range(5):
        publish(orders, ttl=0)
    run_maintenance(store)
    History.objects.using(database).update(finished_at=datetime(2001, 1, 1, tzinfo=UTC))
    monkeypatch.setattr(duties, "DUTIES", (prune,))
    rounds, left = PacedMaintenance(store, 3600, grace_seconds=15), []

    for _ in range(4):
        rounds.run_if_due()
        left.append(History.objects.using(database).count())

    assert left == [3, 1, 0, 0]


def test_a_quiet_round_asks_what_there_is_to_do_and_nothing_else(store: Any, orders: str, database: str) -> None:
    rounds = PacedMaintenance(store, 1e-9, grace_seconds=15)
    rounds.run_if_due()

    with CaptureQueriesContext(connections[database]) as asked:
        rounds.run_if_due()

    assert len(asked) <= 2  # MariaDB has to be asked apart how long it has been running
