"""Every way in which a message becomes ready notifies a waiting session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Celery
from django.db import connections, transaction
from django.utils import timezone

from django_mq import api
from django_mq.delivery.batch import publish_batch
from django_mq.delivery.operator import actions
from django_mq.delivery.operator.moves import move_all
from django_mq.delivery.operator.redrives import redrive
from django_mq.engine.decisions.dead_letters import DEFAULT_EXCHANGE
from django_mq.engine.states import State
from django_mq.integrations.celery.url import register
from django_mq.models import Message
from django_mq.notifications import postgresql
from django_mq.notifications.registry import notifier as chosen_notifier
from django_mq.stores.registry import shared_store
from tests.conftest import hold_queues
from tests.delivery.builders import a_handler, running
from tests.notifications.conformance.conftest import Ears
from tests.stores.builders import a_message, claim, declare, open_session, pass_time
from tests.support.maintenance import run_maintenance
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings


ALIAS = "postgresql"
pytestmark = pytest.mark.django_db(databases=[ALIAS], transaction=True)

#: What wakes a session that waits for messages of the queue.
HEARD = {"n:orders", "b:orders", "q:orders"}


@pytest.fixture(params=["postgresql", "redis"])
def site(
    request: pytest.FixtureRequest, settings: Settings, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A site with the queue ``orders``, whose sessions hear by one of the ways between processes.

    No hint is dropped because the machine is slow.
    """
    hold_queues(settings, ALIAS)
    monkeypatch.setattr(postgresql, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    redis = {
        "REDIS_URL": request.getfixturevalue("redis_url"),
        "REDIS_PREFIX": uuid4().hex,
        "REDIS_TIMEOUT_SECONDS": PATIENCE_SECONDS,
    }
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        **(redis if request.param == "redis" else {}),
        "HINTS": request.param,
    }
    store = shared_store(ALIAS)
    declare(store, "orders")
    declare(store, "other", dead_letter_queue="orders", expiry_queue="orders")
    declare(store, "another", dead_letter_exchange=DEFAULT_EXCHANGE, dead_letter_routing_key="orders")
    yield ALIAS
    store.database.clock_offset *= 0


# The ways: what is done before a session waits, which returns what then makes a message ready.


def publishing() -> Callable[[], object]:
    return lambda: api.publish("orders", 1)


def publishing_in_a_transaction() -> Callable[[], object]:
    return transaction.atomic(using=ALIAS)(lambda: api.publish("orders", 1))


def publishing_for_later() -> Callable[[], object]:
    return lambda: api.publish("orders", 1, delay=60)


def publishing_a_few() -> Callable[[], object]:
    return lambda: api.publish_many([("orders", number) for number in range(3)])


def publishing_many_by_copy() -> Callable[[], object]:
    return lambda: api.publish_many([("orders", number) for number in range(2000)])


def publishing_a_batch() -> Callable[[], object]:
    return lambda: publish_batch(api.OutgoingMessage(queue="orders"), [b"1"] * 2000, using=ALIAS)


def publishing_to_an_exchange() -> Callable[[], object]:
    shared_store(ALIAS).exchanges.bind(exchange="sales", queue="orders", exchange_type="fanout", pattern="")
    return lambda: api.publish(exchange="sales", body=1)


def delaying_a_task() -> Callable[[], object]:
    register()
    app = Celery("every_way", broker=f"django-mq:///{ALIAS}", set_as_current=False)
    return lambda: app.send_task("a.task", queue="orders", ignore_result=True)


def writing_rows_and_announcing() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("orders", delay_seconds=60))

    @transaction.atomic(using=ALIAS)
    def write() -> None:
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("UPDATE django_mq_message SET state = 1, deliver_at = NULL")
        api.announce("orders")

    return write


def moving() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("other"))
    return lambda: move_all("other", "orders", state=State.READY, using=ALIAS)


def redriving() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("orders"))
    Message.objects.using(ALIAS).update(state=State.DEAD.value, dead_reason="x")
    return lambda: redrive("orders", using=ALIAS)


def rows() -> list[actions.ActionTarget]:
    return actions.rows_of(Message.objects.using(ALIAS).all())


def releasing() -> Callable[[], object]:
    claimed_by_a_session()
    return lambda: actions.release(rows(), using=ALIAS)


def delivering_now() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("orders", delay_seconds=60))
    return lambda: actions.deliver_now(rows(), using=ALIAS)


def rescheduling() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("orders", delay_seconds=60))
    return lambda: actions.reschedule(rows(), timezone.now(), using=ALIAS)


def moving_rows() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("other"))
    return lambda: actions.move(rows(), "orders", using=ALIAS)


def resuming() -> Callable[[], object]:
    api.pause("orders")
    shared_store(ALIAS).publications.append(a_message("orders"))
    return lambda: api.resume("orders")


def promoting() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("orders", delay_seconds=60))
    return maintaining


def expiring() -> Callable[[], object]:
    shared_store(ALIAS).publications.append(a_message("other", ttl_seconds=60))
    return maintaining


def reaping() -> Callable[[], object]:
    claimed_by_a_session()
    return maintaining


def maintaining() -> None:
    """Maintain a minute later."""
    store: Any = shared_store(ALIAS)
    pass_time(store, 61)
    run_maintenance(store)


def claimed_by_a_session() -> None:
    store = shared_store(ALIAS)
    store.publications.append(a_message("orders"))
    assert claim(store, open_session(store))


def dying_in_a_worker(queue: str = "other") -> Callable[[], object]:
    def reject(_: object) -> None:
        raise api.Reject("no")

    def die() -> None:
        with running(a_handler(reject, queue=queue), using=ALIAS):
            shared_store(ALIAS).publications.append(a_message(queue))
            wait_until(lambda: Message.objects.using(ALIAS).filter(queue__name="orders").exists())

    return die


def dying_for_an_exchange() -> Callable[[], object]:
    return dying_in_a_worker("another")


WAYS = [
    publishing,
    publishing_in_a_transaction,
    publishing_for_later,
    publishing_a_few,
    publishing_many_by_copy,
    publishing_a_batch,
    publishing_to_an_exchange,
    delaying_a_task,
    writing_rows_and_announcing,
    moving,
    moving_rows,
    redriving,
    releasing,
    delivering_now,
    rescheduling,
    resuming,
    promoting,
    expiring,
    reaping,
    dying_in_a_worker,
    dying_for_an_exchange,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_waiting_session_is_notified(site: str, way: Callable[[], Callable[[], object]]) -> None:
    act = way()
    ears = Ears(chosen_notifier())
    try:
        listener, wake = ears.listen(["q:orders"])
        listener.register_idle(["orders"])

        act()

        wait_until(lambda: wake.take_topics() & HEARD, f"a notification after {way.__name__}")
    finally:
        ears.close()
