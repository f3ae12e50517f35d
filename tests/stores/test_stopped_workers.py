"""A worker is stopped, or its network is silent, while others wait for what it has locked."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.session import Session
from django_mq.errors import LockHeld, StoreError, StoreUnavailable
from django_mq.notifications.base import Wake
from django_mq.stores import connections
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store
from tests.conftest import SERVED
from tests.stores.builders import a_message, claim, declare, open_session, publish
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the worker asks for, and does not read: more than all buffers between a server and a client take.
ENDLESS = {
    "postgresql": "SELECT repeat('x', 1000000) FROM generate_series(1, 200)",
    "mariadb": "SELECT repeat('x', 1000000) FROM seq_1_to_200",
}


@pytest.fixture(
    params=[
        pytest.param(alias, marks=pytest.mark.django_db(databases=[alias], transaction=True)) for alias in SERVED
    ]
)
def alias(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    return str(request.param)


@pytest.fixture
def two(alias: str) -> Iterator[list[Any]]:
    """The stores of a worker that will be stopped and of a healthy one; the queue has rules."""
    stores = [private_store(alias), private_store(alias)]
    declare(stores[0], max_in_flight=10, max_messages=100)
    publish(stores[0])
    yield stores
    for store in stores:
        store.close()


def lock_claims(ask: Any) -> None:
    """Begin a claim as every claim begins, and go no further."""
    ask([("lock_claims", {"queue": "orders"})])


def leave_unread(store: Any) -> None:
    """Ask for more than the buffers take, and read nothing."""
    text, driver = f"{store.database.mark}{ENDLESS[store.alias]}", store.database.connection.connection
    if store.alias == "mariadb":
        driver.send_query(text.encode())
    else:
        driver.pgconn.send_query(text.encode())
        while driver.pgconn.flush():
            pass


def test_a_claim_that_goes_no_further_loses_its_lock(two: list[Any]) -> None:
    stopped, healthy = two
    session, claimed = open_session(healthy), list[Any]()

    def stop_within_a_claim() -> None:
        with stopped.database.conversation() as ask:
            lock_claims(ask)
            claimed.extend(claim(healthy, session))

    with pytest.raises(StoreUnavailable):
        stop_within_a_claim()

    assert len(claimed) == 1
    assert claim(stopped, open_session(stopped)) == []  # it works again


def test_a_transaction_that_goes_no_further_loses_the_lock_of_a_limited_queue(two: list[Any]) -> None:
    stopped, healthy = two

    def stop_within_a_publish() -> None:
        with stopped.database.transaction():
            stopped.admission.append([a_message()])
            healthy.admission.append([a_message()])

    with pytest.raises(StoreUnavailable):
        stop_within_a_publish()

    assert healthy.queues.counts()["orders"].ready == 2


@pytest.mark.once
def test_a_claim_whose_answer_is_not_read_loses_its_lock(two: list[Any], alias: str) -> None:
    stopped, _ = two
    wake = Wake()
    with closing(Session(alias, kind="native", wake=wake)) as session:

        def claimed() -> int:
            try:
                return len(session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1)).claimed)
            except LockHeld:
                return 0

        def stop_within_an_answer() -> None:
            with stopped.database.conversation() as ask:
                lock_claims(ask)
                leave_unread(stopped)
                wait_until(claimed, "a claim")

        with pytest.raises(StoreError):
            stop_within_an_answer()
    wake.close()


def test_the_one_that_waits_says_for_which_worker(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 60)
    wakes = [Wake(), Wake()]
    driver = Driver(name=lambda: "stopped", queues=lambda: ("orders",))
    stopped = Session(alias, kind="native", wake=wakes[0], driver=driver)
    waiting = private_store(alias)
    declare(waiting, max_in_flight=10)
    with closing(stopped):
        stopped.settle_and_claim(ClaimRequest(queues=("orders",), credit=1))

        with stopped.store.database.conversation() as ask:
            lock_claims(ask)
            holders = waiting.server.lock_holders(0)

    assert [(holder.queue, holder.name) for holder in holders] == [("orders", "stopped")]
    assert "'stopped' has held a lock of queue 'orders' for " in str(holders[0])
    waiting.close()
    for wake in wakes:
        wake.close()
