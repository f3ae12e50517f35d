"""mq_workers and mq_top: the workers, and their rates."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state.flow import Flow
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import History, WorkerSession
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Heartbeat, SessionInfo, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run

WORKER = SessionInfo(
    name="w\x1b[2J", kind="native", host="h", pid=77, version="1.2", queues=("orders",), credit=20
)


@pytest.fixture(autouse=True)
def orders(database: str) -> None:
    declare(shared_store(database), "orders")


def finish(alias: str, number: int) -> None:
    """Publish and accept so many messages."""
    store = shared_store(alias)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    for body in range(number):
        publish("orders", body)
    claimed = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=number)).claimed
    store.settlements.settle(session, [Settlement(one.id, one.claim, Verdict.ACCEPT) for one in claimed])


def test_a_worker_has_a_line_with_what_it_holds(database: str, run: Run) -> None:
    store = shared_store(database)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    store.sessions.renew(session, Heartbeat(deadline_seconds=60, held=3, queues=("orders",), credit=20))

    line = run("mq_workers").splitlines()[1]

    assert line.split()[:8] == [str(session), "w\\x1b[2J", "native", "77", "1.2", "orders", "3", "20"]
    assert "stale" not in line


def test_a_worker_past_its_deadline_is_stale(database: str, run: Run) -> None:
    store = shared_store(database)
    store.sessions.open(WORKER, deadline_seconds=60)
    expired = store.sessions.open(WORKER, deadline_seconds=0)

    (line,) = run("mq_workers", "--stale").splitlines()[1:]

    assert line.split()[0] == str(expired)
    assert line.endswith("stale")


def test_scripts_are_given_the_consumers_too(database: str, run: Run) -> None:
    store = shared_store(database)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    consumer = ConsumerInfo(queue_name="orders", handler="shop.sell", credit_limit=5, credit_used=2)
    store.sessions.renew(session, Heartbeat(deadline_seconds=60, queues=("orders",), consumers=(consumer,)))

    (worker,) = json.loads(run("mq_workers", "--json", "--queue", "orders"))

    assert worker["queues"] == ["orders"]
    (shown,) = worker["consumers"]
    assert (shown["handler"], shown["credit_used"], shown["credit_limit"]) == ("shop.sell", 2, 5)


def test_nobody_is_said_to_be_nobody(database: str, run: Run) -> None:
    shared_store(database).sessions.open(WORKER, deadline_seconds=60)
    declare(shared_store(database), "mails")

    assert run("mq_workers", "--queue", "mails") == "There are no worker sessions to show.\n"


def test_what_finishes_between_two_looks_is_the_flow(database: str) -> None:
    finish(database, 2)
    flow = Flow(database)

    assert flow.look() is None
    assert flow.look() == {}
    finish(database, 3)
    rates = flow.look()
    assert rates is not None
    assert rates["orders"] > 0
    assert flow.look() == {}
    assert History.objects.using(database).count() == 5


def test_the_longest_waiting_queue_stands_first(database: str, run: Run) -> None:
    declare(shared_store(database), "mails")
    publish("orders")

    screen = run("mq_top", "--count", "1").splitlines()

    assert [line.split()[0] for line in screen[3:]] == ["orders", "mails"]
    assert "0 workers, 0 stale, 0 held" in screen[0]


def test_it_does_not_look_without_rest(database: str, run: Run) -> None:
    with pytest.raises(CommandError, match=r"from 0\.2"):
        run("mq_top", "--interval", "0")


def test_a_worker_is_told_what_to_do_by_its_name_or_its_id(database: str, run: Run) -> None:
    store = shared_store(database)
    session = store.sessions.open(replace(WORKER, name="shop-1"), deadline_seconds=60)
    other = store.sessions.open(replace(WORKER, name="shop-2"), deadline_seconds=60)
    sessions = WorkerSession.objects.using(database)

    assert run("mq_workers", "--quiet", "shop-1") == "Told: shop-1.\n"
    assert json.loads(run("mq_workers", "--json", "--credit", "5", str(session), "shop-2")) == {
        "told": ["shop-2", "shop-1"]
    }
    assert "told: quiet, credit 5 each" in run("mq_workers")
    assert run("mq_workers", "--stop", "shop-2") == "Told: shop-2.\n"

    found = {row.pk: (row.conduct, row.given_credit) for row in sessions.all()}
    assert found == {session: ("quiet", 5), other: ("stop", 5)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--quiet", "unknown"], "no worker session 'unknown'"),
        (["--credit", "many", "shop-1"], "takes a number"),
        (["--credit", "5"], "takes a number"),
        (["--credit", "9999999999", "shop-1"], "give 0 to"),
    ],
)
def test_what_cannot_be_told_is_refused(database: str, run: Run, arguments: list[str], said: str) -> None:
    shared_store(database).sessions.open(replace(WORKER, name="shop-1"), deadline_seconds=60)

    with pytest.raises(CommandError, match=said):
        run("mq_workers", *arguments)
