"""Maintenance: what is due becomes ready, what has expired goes; twice does no harm."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import WorkerSession
from tests.stores.builders import DEADLINE_SECONDS, a_message, claim, declare, ids, pass_time, publish, settle
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_promoting_makes_due_messages_of_every_queue_ready(store: Store, orders: str) -> None:
    declare(store, "bills")
    for name in (orders, "bills"):
        publish(store, name, delay_seconds=10)
        publish(store, name, delay_seconds=1000)
    pass_time(store, 11)

    assert (store.maintenance.promote(), store.maintenance.promote()) == (2, 0)
    assert {name: (counts.ready, counts.scheduled) for name, counts in store.queues.counts().items()} == {
        "bills": (1, 1),
        "orders": (1, 1),
    }


def test_promoting_takes_the_earliest_first(store: Store, orders: str, session: int) -> None:
    late = publish(store, delay_seconds=20)
    early = publish(store, delay_seconds=10)
    pass_time(store, 30)

    assert store.maintenance.promote(limit=1) == 1

    assert (store.queues.counts()[orders].ready, ids(claim(store, session))) == (1, [early, late])


def test_nothing_is_promoted_before_its_time(store: Store, orders: str) -> None:
    publish(store, delay_seconds=1000)
    pass_time(store, 900)

    assert store.maintenance.promote() == 0


def test_promoting_goes_on_in_a_paused_queue_and_delivers_nothing(store: Store, orders: str, session: int) -> None:
    publish(store, delay_seconds=10)
    store.queues.set_paused(orders, paused=True)
    pass_time(store, 11)

    assert store.maintenance.promote() == 1
    assert claim(store, session) == []


def test_expiring_finishes_ready_and_scheduled_messages_past_their_time(store: Store, orders: str) -> None:
    publish(store, ttl_seconds=10)
    publish(store, ttl_seconds=10, delay_seconds=100)
    publish(store, ttl_seconds=1000)
    pass_time(store, 11)

    assert (store.maintenance.expire(), store.maintenance.expire()) == (2, 0)
    assert store.queues.counts()[orders].total == 1


def test_a_claimed_message_does_not_expire_under_its_handler(store: Store, orders: str, session: int) -> None:
    publish(store, ttl_seconds=10)
    [message] = claim(store, session)
    pass_time(store, 11)

    assert store.maintenance.expire() == 0
    assert settle(store, session, message, Verdict.ACCEPT) == frozenset()


def test_a_dead_message_does_not_expire(store: Store, orders: str, session: int) -> None:
    publish(store, ttl_seconds=10)
    settle(store, session, claim(store, session)[0], Verdict.DEAD, reason="bad")
    pass_time(store, 11)

    assert store.maintenance.expire() == 0
    assert store.queues.counts()[orders].dead == 1


def test_expiring_takes_the_longest_expired_first(store: Store, orders: str, session: int) -> None:
    second = publish(store, ttl_seconds=20)
    publish(store, ttl_seconds=10)
    pass_time(store, 30)

    assert store.maintenance.expire(limit=1) == 1

    assert ids(claim(store, session)) == [second]


def test_a_message_born_expired_expires(store: Store, orders: str) -> None:
    publish(store, expires_at=datetime(2021, 1, 1, tzinfo=UTC))

    assert store.maintenance.expire() == 1


def test_every_duty_is_harmless_on_an_empty_store(store: Store) -> None:
    for duty in (
        "maintenance.promote",
        "maintenance.expire",
        "maintenance.trim",
        "retention.prune",
        "sessions.reap",
    ):
        assert attrgetter(duty)(store)() in (0, []), duty


def due_duties(store: Store) -> set[str]:
    return {name for name, is_due in store.maintenance.due_duties().items() if is_due}


@ON_DATABASES
def test_no_duty_is_due_where_nothing_is_due_dead_or_expired(store: Store, orders: str, session: int) -> None:
    publish(store, delay_seconds=60, ttl_seconds=600)
    publish(store)
    claim(store, session)

    assert due_duties(store) == set()


@ON_DATABASES
def test_a_duty_is_due_while_it_has_something_to_do(store: Store, orders: str, session: int) -> None:
    publish(store, delay_seconds=60)
    pass_time(store, DEADLINE_SECONDS + 1)
    to_reap = due_duties(store)
    store.sessions.reap()
    publish(store, ttl_seconds=10)
    pass_time(store, 11)
    to_expire = due_duties(store)
    store.maintenance.expire()
    pass_time(store, 60)

    assert (to_reap, to_expire, due_duties(store)) == ({"reap"}, {"expire"}, {"promote"})


@ON_DATABASES
def test_trimming_is_due_while_a_ring_may_hold_too_much(store: Store, session: int) -> None:
    declare(store, max_messages=1, overflow="ring")
    store.admission.append([a_message()])
    fitting = store.maintenance.due_duties()["trim"]
    [message] = claim(store, session)
    store.admission.append([a_message()])
    settle(store, session, message, Verdict.RELEASE)
    full = store.maintenance.due_duties()["trim"]
    store.maintenance.trim()

    assert (fitting, full, store.maintenance.due_duties()["trim"]) == (False, True, False)


@ON_DATABASES
def test_reaping_is_due_while_there_is_a_message_that_nobody_holds(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    claim(store, session)
    WorkerSession.objects.using(store.alias).filter(pk=session).delete()

    assert store.maintenance.due_duties()["reap"]
