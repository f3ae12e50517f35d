"""A drain runs the tasks of Celery as a worker of Celery does."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery, _state
from celery.exceptions import Reject
from django.db import IntegrityError, connections, transaction

from django_mq import conf
from django_mq.api import Unique, publish
from django_mq.engine.states import State
from django_mq.errors import DrainNeverEnds, DuplicateMessage, NoHandler, RateLimited
from django_mq.integrations.celery.unique import UniqueTask
from django_mq.integrations.celery.url import register
from django_mq.limits import declared, throttle
from django_mq.models import Attempt, Message, Queue
from django_mq.models.limit import LimitHold
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.testing import QueueTester

pytestmark = pytest.mark.on("sqlite", "memory")

SEEN: list[Any] = []


def add(self: Any, x: int, y: int = 0) -> int:
    SEEN.append((x, y, self.request.retries))
    return x + y


def fail(self: Any) -> None:
    raise ValueError("on purpose")


def retry(self: Any, alias: str) -> None:
    """Retry, with a failed statement, in a block that the retry undoes."""
    SEEN.append(self.request.retries)
    try:
        Queue.objects.using(alias).create(name="twice")
        with transaction.atomic(using=alias):
            Queue.objects.using(alias).create(name=f"undone {self.request.retries}")
            if self.request.retries < 2:
                raise self.retry(countdown=60)
    except IntegrityError as error:
        raise self.retry(exc=error, countdown=3600) from error


def reject(self: Any) -> None:
    raise Reject("no", requeue=False)


def chain(self: Any) -> None:
    self.app.send_task("chain")


@pytest.fixture
def app(alias: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """The current app, with tasks that are acknowledged when they begin, and late."""
    register()
    monkeypatch.setattr(_state._tls, "current_app", None)  # both are as before in the end
    monkeypatch.setattr(_state, "default_app", None)
    with Celery("unit", broker=f"django-mq:///{alias}", backend="cache+memory://") as made:
        made.set_current()
        for function in (add, fail, retry, reject, chain):
            made.task(name=function.__name__, shared=False, bind=True)(function)
        for name, function in (("fail late", fail), ("reject late", reject)):
            made.task(name=name, shared=False, bind=True, acks_late=True)(function)
        SEEN.clear()
        yield made


def test_tasks_run_in_the_order_and_at_the_times_of_their_queue(alias: str, app: Celery, mq: QueueTester) -> None:
    app.send_task("add", (1,), {"y": 2})
    app.send_task("add", (2,), countdown=3600)
    app.send_task("add", (3,), priority=9, queue="urgent")
    app.send_task("add", (4,), countdown=3600, expires=60)

    first, second = mq.drain(), mq.drain(ahead=timedelta(hours=2))

    assert [attempt.handler for attempt in first] == ["add", "add"]
    assert SEEN == [(3, 0, 0), (1, 2, 0), (2, 0, 0)]
    assert (first.outcomes, second.outcomes) == (["accepted", "accepted"], ["accepted", "revoked"])
    assert [message.type for message in mq.published("celery")] == ["add"] * 3


def test_countdowns_and_times_to_live_count_from_the_moved_clock(alias: str, app: Celery, mq: QueueTester) -> None:
    mq.move_clock(timedelta(days=1))
    app.send_task("add", (1,), countdown=60, expires=120)
    app.send_task("add", (2,), countdown=60, expires=30)

    assert mq.drain().outcomes == []
    assert mq.drain(ahead=61).outcomes == ["accepted", "revoked"]
    assert SEEN == [(1, 0, 0)]


def test_a_task_that_fails_is_acknowledged_and_one_that_rejects_is_a_dead_letter(
    alias: str, app: Celery, mq: QueueTester
) -> None:
    for name in ("fail", "fail late", "reject", "reject late", "unknown"):
        app.send_task(name)

    drained = mq.drain(raise_errors=False)

    assert drained.outcomes == ["failed", "failed", "failed", "dead", "dead"]
    assert sorted(letter.dead_reason for letter in mq.dead_letters("celery")) == [
        "rejected",
        "unknown task unknown",
    ]
    app.send_task("fail")
    with pytest.raises(ValueError, match="on purpose"):
        mq.drain()


def test_a_retry_outlives_the_transaction_of_the_task_and_stays_in_that_of_the_test(
    alias: str, app: Celery, mq: QueueTester
) -> None:
    app.send_task("retry", (alias,))

    assert mq.drain().outcomes == ["retried"]
    assert mq.drain(ahead=120).outcomes == ["retried"]
    assert SEEN == [0, 1]
    assert not Queue.objects.using(alias).filter(name__startswith="undone").exists()
    assert Message.objects.using(alias).get().deliver_at > mq.now() + timedelta(minutes=50)


def test_a_unique_task_that_retries_keeps_its_key_until_it_is_finished(
    alias: str, app: Celery, mq: QueueTester
) -> None:
    once = Unique(arguments=("alias",))
    task = app.task(name="retry once", shared=False, bind=True, base=UniqueTask, unique=once, acks_late=True)(
        retry
    )
    task.delay(alias)

    assert mq.drain().outcomes == ["retried"]
    with pytest.raises(DuplicateMessage):
        task.delay(alias)
    assert len(mq.drain(ahead=120)) == 1
    with pytest.raises(DuplicateMessage):
        task.delay(alias)
    Message.objects.using(alias).all().delete()
    task.delay(alias)


def test_a_task_that_sends_itself_for_ever_is_named(alias: str, app: Celery, mq: QueueTester) -> None:
    app.send_task("chain")

    with pytest.raises(DrainNeverEnds, match="chain ran 5 times on queue 'celery'"):
        mq.drain(limit=5)


def test_handlers_and_tasks_are_drained_together(
    alias: str, app: Celery, mq: QueueTester, handle: Callable[..., None]
) -> None:
    handle("orders", lambda message: app.send_task("add", (message.body,)))
    publish("orders", 1)

    assert [attempt.handler.rpartition(".")[2] for attempt in mq.drain()] == ["<lambda>", "add"]
    assert mq.drain("celery").outcomes == []
    with pytest.raises(NoHandler, match="receipts"):
        mq.drain("receipts")


def test_nothing_of_a_task_is_committed(alias: str, app: Celery, mq: QueueTester) -> None:
    app.send_task("retry", (alias,))
    mq.drain()

    in_transaction = connections[alias].in_atomic_block
    with closing(private_store(alias)) as store:
        assert bool(store.browser.browse("celery", states=[*map(int, State)])) is not in_transaction


def test_a_unique_task_that_replaces_itself_goes_on(alias: str, app: Celery, mq: QueueTester) -> None:
    def step(self: Any, customer: int, number: int = 0) -> None:
        SEEN.append(number)
        if number < 2:
            raise self.replace(self.s(customer, number=number + 1))

    once = Unique(arguments=("customer",), second="drop")
    for late in (True, False):
        SEEN.clear()
        name = f"step {late}"
        task = app.task(name=name, shared=False, bind=True, base=UniqueTask, unique=once, acks_late=late)(step)
        task.delay(17)
        mq.drain()
        assert SEEN == [0, 1, 2]


@pytest.mark.parametrize("late", [True, False])
def test_a_task_that_its_service_limits_waits_uncounted_and_its_key_is_held(
    alias: str, app: Celery, mq: QueueTester, late: bool
) -> None:
    def call(self: Any, customer: str) -> None:
        SEEN.append((customer, self.request.retries))
        if len(SEEN) < 3:
            raise RateLimited(retry_after_seconds=60)

    throttle("celery", amount=1000, seconds=1, burst=1000, key="argument:customer", place=0)
    once = Unique(arguments=("customer",))
    task = app.task(
        name="call", shared=False, bind=True, base=UniqueTask, unique=once, max_retries=0, acks_late=late
    )(call)
    try:
        task.delay("17")
        assert mq.drain().outcomes == ["retried"]
        with pytest.raises(DuplicateMessage):
            task.delay("17")
        assert [hold.limited_key for hold in LimitHold.objects.using(alias).all()] == ["17"]
        assert mq.drain(ahead=300).outcomes == ["retried", "accepted"]
    finally:
        declared.forget("celery")
        conf.remove_extension(declared.NAME)
    assert SEEN == [("17", 0)] * 3
    assert not Attempt.objects.using(alias).exists()
