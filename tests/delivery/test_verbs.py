"""The verbs of the Python API say what happened to each message that the caller has named."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections, transaction

from django_mq.api import (
    Answer,
    Effect,
    acancel,
    amove,
    aredrive,
    arelease,
    areschedule,
    cancel,
    move,
    publish,
    redrive,
    release,
    reschedule,
)
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import ConfigurationError, InvalidMessage, MQError, QueueClosed, QueueFull, UnknownQueue
from django_mq.models import History, Message, Queue
from django_mq.stores.records import SessionInfo, Settlement
from django_mq.stores.registry import shared_store
from tests.delivery.test_recall import a_busy_worker, numbers, prepare
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from pytest_django import Settings

    from django_mq.stores.base import Store

pytestmark = pytest.mark.on("sqlite")

STATUS = Message.Status
DONE, HELD, UNCHANGED, MISSING = Effect.DONE, Effect.HELD, Effect.UNCHANGED, Effect.MISSING


@pytest.fixture
def of_each_state(database: str, orders: str, store: Store) -> dict[str, UUID]:
    """A message of each state in the queue ``orders``; there is also a queue ``bills``."""
    declare(store, "bills")
    found = {}
    session = store.sessions.open(
        SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=(orders,)), deadline_seconds=60
    )
    for name in ("dead", "held"):
        found[name] = publish(orders)
        row = Message.objects.using(database).get(message_id=found[name])
        row.state, row.session_id, row.claim = STATUS.CLAIMED, session, 7
        row.save(using=database)
        if name == "dead":
            store.settlements.settle(session, [Settlement(row.pk, 7, Verdict.DEAD, reason="bad")])
    return found | {"ready": publish(orders), "scheduled": publish(orders, delay=3600)}


#: What each verb does to a message of each state: scheduled, ready, held and dead.
VERBS: list[tuple[str, Callable[[Any], list[Answer]], tuple[Effect, Effect, Effect, Effect]]] = [
    ("cancel", cancel, (DONE, DONE, HELD, DONE)),
    ("move", partial(move, to="bills"), (DONE, DONE, HELD, DONE)),
    ("redrive", redrive, (UNCHANGED, UNCHANGED, HELD, DONE)),
    ("redrive to another queue", partial(redrive, to="bills"), (UNCHANGED, UNCHANGED, HELD, DONE)),
    ("reschedule", partial(reschedule, delay=60), (DONE, DONE, HELD, UNCHANGED)),
    ("deliver now", partial(reschedule, now=True), (DONE, UNCHANGED, HELD, UNCHANGED)),
    ("release", release, (UNCHANGED, UNCHANGED, DONE, UNCHANGED)),
]


@pytest.mark.parametrize(("verb", "effects"), [each[1:] for each in VERBS], ids=[each[0] for each in VERBS])
def test_a_verb_says_what_happened_to_a_message_in_each_state(
    of_each_state: dict[str, UUID], verb: Callable[[Any], list[Answer]], effects: tuple[Effect, ...]
) -> None:
    names = ["scheduled", "ready", "held", "dead"]
    nowhere = uuid4()

    answers = verb([*map(of_each_state.get, names), str(nowhere), nowhere])

    assert [answer.message_id for answer in answers] == [*map(of_each_state.get, names), nowhere]
    assert [answer.effect for answer in answers] == [*effects, MISSING]
    assert [answer.done for answer in answers] == [effect is DONE for effect in (*effects, MISSING)]


def test_one_id_may_be_in_several_queues(database: str, orders: str, store: Store) -> None:
    declare(store, "bills")
    declare(store, "copies")
    message = publish(orders)
    for queue in ("bills", "copies"):
        publish(queue, message_id=message)

    assert move(message, "bills", queue="copies") == [Answer(message, "copies", UNCHANGED)]
    assert cancel(message, queue="copies") == [Answer(message, "copies", DONE)]
    assert cancel(message) == [Answer(message, "bills", DONE), Answer(message, orders, DONE)]
    assert cancel(message) == [Answer(message, "", MISSING)]
    outcomes = History.objects.using(database).values_list("outcome", flat=True)
    assert list(outcomes) == [History.Outcome.CANCELLED] * 3


def test_a_declared_queue_need_not_have_been_used(database: str, orders: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {"DATABASE": database, "QUEUES": {"parked": {}, "bin": {}}}
    message_id = publish(orders)

    assert move(message_id, "parked") == [Answer(message_id, "parked", DONE)]
    assert cancel(message_id, queue="bin") == [Answer(message_id, "", MISSING)]


def test_the_answer_says_that_a_message_has_ended_meanwhile(database: str, orders: str) -> None:
    """It ends after it was found, and before it is removed."""
    message = publish(orders)
    waiting = [Message.objects.using(database).get()]

    def end_it_first(execute: Any, sql: str, *rest: Any) -> Any:
        if waiting and ("DELETE FROM django_mq_message" in sql or "SKIP LOCKED" in sql):
            waiting.pop().delete()
        return execute(sql, *rest)

    with connections[database].execute_wrapper(end_it_first):
        assert cancel(message) == [Answer(message, orders, Effect.ENDED)]


def test_a_verb_follows_the_callers_transaction(database: str, orders: str) -> None:
    message = publish(orders)

    with transaction.atomic(using=database):
        answers = cancel(message)
        transaction.set_rollback(True, using=database)

    assert answers == [Answer(message, orders, DONE)]
    assert Message.objects.using(database).get().message_id == message


@pytest.mark.parametrize(
    ("act", "error", "said"),
    [
        (lambda id_: cancel("one"), InvalidMessage, "must be a UUID, not 'one'"),
        (lambda id_: cancel(None), InvalidMessage, "Give the id of a message, or several, not None"),  # type: ignore[arg-type]
        (lambda id_: cancel([id_, None]), InvalidMessage, "is None"),
        (lambda id_: cancel(id_, queue="nowhere"), UnknownQueue, "nowhere"),
        (lambda id_: move(id_, "nowhere"), UnknownQueue, "nowhere"),
        (lambda id_: move(id_, "closed"), QueueClosed, "closed"),
        (lambda id_: move(id_, "full"), QueueFull, "full"),
        (lambda id_: redrive(id_, to="closed"), QueueClosed, "closed"),
        (reschedule, InvalidMessage, "one of deliver_at, delay and now"),
        (lambda id_: reschedule(id_, delay=1, now=True), InvalidMessage, "one of deliver_at, delay and now"),
        (lambda id_: reschedule(id_, delay=-1), InvalidMessage, "delay is -1"),
        (lambda id_: release(id_, using=":memory:"), ConfigurationError, "in memory"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_written(
    store: Store, orders: str, act: Callable[[UUID], Any], error: type[MQError], said: str
) -> None:
    database = store.alias
    for queue in ("closed", "full"):
        declare(store, queue)
    Queue.objects.using(database).filter(name="closed").update(closed=True)
    Queue.objects.using(database).filter(name="full").update(max_messages=1)
    publish("full")
    message = publish(orders)

    with pytest.raises(error, match=said):
        act(message)

    assert Message.objects.using(database).get(message_id=message).queue.name == orders


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    return prepare(committed_database, settings)


def test_a_verb_reaches_what_a_worker_has_not_begun(alias: str) -> None:
    with a_busy_worker(alias, 4) as slow:
        running, *waiting = Message.objects.using(alias).order_by("id").values_list("message_id", flat=True)

        answers = cancel([running, *waiting])
        slow.may_end.set()
        wait_until(lambda: numbers(alias, STATUS.CLAIMED) == 0)

    assert [answer.effect for answer in answers] == [HELD, DONE, DONE, DONE]
    assert slow.begun == [0]


def test_async_code_has_the_same_verbs(alias: str) -> None:
    declare(shared_store(alias), "bills")

    async def act() -> list[list[Answer]]:
        return [
            await areschedule(message, delay=timedelta(hours=1)),
            await amove(message, "bills", queue="orders"),
            await aredrive(message, to="orders"),
            await arelease(message),
            await acancel(message),
        ]

    message = publish("orders")

    answers = asyncio.run(act())

    effects = [answer.effect for [answer] in answers]
    assert effects == [DONE, DONE, UNCHANGED, UNCHANGED, DONE]
    assert not Message.objects.using(alias).exists()
