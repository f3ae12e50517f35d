"""What a handler returns travels with the verdict to the transaction that settles the message."""

from __future__ import annotations

import threading
from asyncio import iscoroutinefunction
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.api import Done, OutgoingMessage, publish_many
from django_mq.bulk.pool import pool_for
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.ends import End, Ended
from django_mq.integrations.celery.native import ACCEPTED, deliver, pack
from django_mq.models import Message
from django_mq.seams.extension import Extension, Listening
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_handler
from tests.delivery.test_attempt import run
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite")

#: What a handler returns, and what is told of it; None where the message is dead.
TOLD = {"ok": '{"total":3}', "nothing": None, "moment": '"2026-11-29T00:00:00Z"'}


def wants(message: Any) -> bool:
    return message.type != "unasked"


@pytest.fixture
def told() -> Iterator[list[Ended]]:
    """What a listening is told that asks for results."""
    heard: list[Ended] = []
    ends = frozenset({End.ACCEPTED, End.DEAD})
    asking = Listening(
        name="asker", ends=ends, wants=wants, tell=lambda _, ended: heard.extend(ended), returns=True
    )
    conf.add_extension(Extension(name="asker", ends=(asking,)))
    yield heard
    conf.remove_extension("asker")


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAX_RESULT_BYTES": 100}
    declare(shared_store(committed_database), "orders")
    return committed_database


def answer(body: Any) -> Any:
    values = {
        "ok": {"total": 3},
        "nothing": None,
        "moment": "2026-11-29T00:00:00Z",
        "object": object(),
        "large": "x" * 200,
        "unasked": object(),
    }
    return values[body]


def one(message: Any) -> Any:
    return answer(message.body)


async def one_later(message: Any) -> Any:
    return answer(message.body)


def many(messages: list[Any]) -> Any:
    return [Done(answer(each.body)) if each.body != "nothing" else None for each in messages]


@contextmanager
def working(alias: str, function: Callable[..., Any], **options: Any) -> Iterator[None]:
    bulk = options.pop("bulk", None)
    handler = a_handler(function, credit=0, **options)
    if iscoroutinefunction(function):
        worker = Worker([handler], threads=4, pool=partial(EventLoopPool, threads=2), using=alias)
    elif bulk:
        handler = replace(handler, bulk=bulk, bulk_seconds=0.05)
        worker = Worker([handler], threads=8, pool=pool_for(handler), using=alias)
    else:
        worker = Worker([handler], threads=1, using=alias)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("function", "options"),
    [(one, {}), (one_later, {}), (one, {"transactional": True}), (many, {"bulk": 8})],
    ids=["sync", "async", "transactional", "bulk"],
)
def test_a_listening_that_asks_is_told_what_the_handler_returned(
    alias: str, told: list[Ended], function: Callable[..., Any], options: dict[str, Any]
) -> None:
    bodies = ["ok", "nothing", "moment", "object", "large", "unasked"]
    ids = publish_many(
        [OutgoingMessage(queue="orders", body=each, type="unasked" * (each == "unasked")) for each in bodies],
        using=alias,
    )
    with working(alias, function, **options):
        wait_until(lambda: not Message.objects.using(alias).filter(state__in=[0, 1, 2]).exists())
        wait_until(lambda: len(told) == len(bodies) - 1)

    by_id = {each.message_id: each for each in told}
    assert {body: by_id[id_].returned for body, id_ in zip(bodies, ids, strict=True) if body in TOLD} == TOLD
    dead = {each.message_id: each.dead_reason for each in Message.objects.using(alias)}
    reasons = {body: dead[id_].partition(":")[0] for body, id_ in zip(bodies, ids, strict=True) if id_ in dead}
    assert reasons == {"object": "ResultNotSerialisable", "large": "ResultTooLarge"}


@pytest.mark.parametrize("transactional", [False, True])
def test_a_pool_process_of_celery_settles_with_the_result(
    alias: str, told: list[Ended], transactional: bool
) -> None:
    consumer("orders", transactional=transactional)(one)
    publish_many([OutgoingMessage(queue="orders", body=each) for each in ("ok", "nothing")], using=alias)
    store = private_store(alias)
    try:
        info = SessionInfo(name="worker", kind="celery", host="host", pid=1, version="1")
        session = store.sessions.open(info, deadline_seconds=60)
        request = ClaimRequest(queues=("orders",), credit=2, slots=2)
        answers = [
            deliver.run(alias, session, pack(each))
            for each in store.claims.settle_and_claim(session, [], request).claimed
        ]
    finally:
        forget("orders")
        store.close()

    assert answers == [None if transactional else ACCEPTED, None]
    assert [each.returned for each in told] == ['{"total":3}', None][: 2 if transactional else 1]


def test_a_result_that_nobody_asks_for_is_not_even_encoded(told: list[Ended]) -> None:
    for mark in (None, "another"):
        assert run(lambda _: object(), told_to=mark).returned is None
    assert not told
