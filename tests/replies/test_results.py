"""Results of messages on each database: kept with the verdict, read and waited for; and calls."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.http import HttpRequest

from django_mq.api import (
    OutgoingMessage,
    Reject,
    acall,
    aget_result,
    apublish,
    call,
    cancel,
    get_result,
    publish,
    publish_many,
    purge,
    redrive,
    result_of,
)
from django_mq.delivery.codecs import marked_with_key
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.engine.decisions import chords
from django_mq.errors import (
    InvalidMessage,
    ResultFailed,
    ResultTimeout,
    UnknownResult,
    UnsupportedRule,
    WaitInTransaction,
)
from django_mq.models import History, Message, Queue
from django_mq.notifications import waiters
from django_mq.replies import reader
from django_mq.replies.extension import events_of
from django_mq.replies.models import MessageResult
from django_mq.replies.panel import show_result
from django_mq.replies.recorder import prune
from django_mq.stores.clock import clock
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_handler
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite", "postgresql")


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.02}
    declare(shared_store(committed_database), "prices")
    Queue.objects.using(committed_database).update(max_attempts=1)
    return committed_database


def price(message: Any) -> Any:
    if message.body == "unknown":
        raise Reject("no such article")
    return None if message.body == "nothing" else {"price": message.body}


@contextmanager
def working(alias: str, function: Callable[[Any], Any] = price, **options: Any) -> Iterator[None]:
    worker = Worker([a_handler(function, queue="prices", **options)], threads=1, using=alias)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_result_is_kept_where_it_is_asked_for(alias: str, transactional: bool) -> None:
    kept = publish("prices", 7, keep_result_seconds=3600, using=alias)
    nothing = publish("prices", "nothing", keep_result_seconds=timedelta(hours=1), using=alias)
    plain = publish("prices", 8, using=alias)
    assert result_of(kept, using=alias).status == "waiting"

    with working(alias, transactional=transactional):
        assert get_result(kept, timeout_seconds=PATIENCE_SECONDS, using=alias) == {"price": 7}
        assert get_result(str(nothing), timeout_seconds=PATIENCE_SECONDS, using=alias) is None
        with pytest.raises(UnknownResult, match="keep_result_seconds"):
            get_result(plain, timeout_seconds=PATIENCE_SECONDS, using=alias)
    found = result_of(kept, using=alias)
    assert found.status == "succeeded"
    assert found.expires_at - found.finished_at == timedelta(hours=1)
    [event] = events_of(HttpRequest(), alias, [kept])
    assert (event.words.partition(" is kept")[0], event.bad) == ("its result of 11 B", False)


def test_the_result_of_a_message_that_does_not_succeed_says_how_it_ended(alias: str) -> None:
    ids = [publish("prices", "unknown", keep_result_seconds=3600, using=alias) for _ in range(3)]
    cancel([ids[0]], using=alias)
    with working(alias):
        with pytest.raises(ResultFailed, match="it is dead: Reject: no such article") as failed:
            get_result(ids[1], timeout_seconds=PATIENCE_SECONDS, using=alias)
        with pytest.raises(ResultFailed):
            get_result(ids[2], timeout_seconds=PATIENCE_SECONDS, using=alias)
    assert (failed.value.message_id, failed.value.status) == (ids[1], "dead")
    assert result_of(ids[0], using=alias).status == "cancelled"

    redrive([ids[1]], using=alias)  # it ends once more
    assert result_of(ids[1], using=alias).status == "waiting"
    with working(alias, lambda _: "found"):
        assert get_result(ids[1], timeout_seconds=PATIENCE_SECONDS, using=alias) == "found"
    purge("prices", using=alias)


def test_results_are_deleted_when_their_time_is_over(alias: str) -> None:
    store = shared_store(alias)
    ids = [publish("prices", 7, keep_result_seconds=3600, using=alias) for _ in range(2)]
    with working(alias):
        for each in ids:
            get_result(each, timeout_seconds=PATIENCE_SECONDS, using=alias)
    MessageResult.objects.using(alias).filter(pk=ids[0]).update(expires_at=clock.now())

    with pytest.raises(UnknownResult):
        result_of(ids[0], using=alias)
    assert (prune(store, 100), prune(store, 100)) == (1, 0)
    assert result_of(ids[1], using=alias).value == {"price": 7}


def test_a_call_returns_what_the_handler_returns(alias: str) -> None:
    async def ask(body: Any) -> Any:
        return await acall("prices", body, timeout_seconds=PATIENCE_SECONDS, using=alias)

    with working(alias):
        assert call("prices", 3, timeout_seconds=PATIENCE_SECONDS, priority=9, using=alias) == {"price": 3}
        assert asyncio.run(ask(4)) == {"price": 4}
        for failing in (
            lambda: call("prices", "unknown", timeout_seconds=PATIENCE_SECONDS, using=alias),
            lambda: asyncio.run(ask("unknown")),
        ):
            with pytest.raises(ResultFailed, match="no such article"):
                failing()


def test_what_waits_is_woken_by_hints_over_one_listener(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # No look without a hint comes in time.
    for module, name in ((chords, "SHORTEST_SECONDS"), (waiters, "BEAT_SECONDS"), (reader, "LONGEST_SECONDS")):
        monkeypatch.setattr(module, name, 10 * PATIENCE_SECONDS)
    answers: list[Any] = []

    def ask(body: int) -> None:
        answers.append(call("prices", body, timeout_seconds=10 * PATIENCE_SECONDS, using=alias))
        connections[alias].close()

    async def aask() -> list[Any]:
        calls = [acall("prices", body, timeout_seconds=10 * PATIENCE_SECONDS, using=alias) for body in (7, 8)]
        kept = await apublish("prices", 9, keep_result_seconds=60, using=alias)
        return [*await asyncio.gather(*calls), await aget_result(kept, timeout_seconds=1e6, using=alias)]

    threads = [threading.Thread(target=ask, args=[body]) for body in range(5)]
    with working(alias):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert [thread.name for thread in threading.enumerate()].count(waiters.THREAD) == 1
        assert asyncio.run(aask()) == [{"price": 7}, {"price": 8}, {"price": 9}]
    assert sorted(each["price"] for each in answers) == [0, 1, 2, 3, 4]


def test_a_hint_over_the_connection_of_a_worker_waits_for_its_commit(alias: str) -> None:
    store, told = private_store(alias), list[str]()
    database = store.database
    with database.transaction(), database.transaction():
        database.after_commit(lambda: told.append("committed"))
        assert told == []
    with suppress(ValueError), database.transaction():
        database.after_commit(lambda: told.append("rolled back"))
        raise ValueError
    with database.transaction():
        pass
    assert told == ["committed"]
    store.close()


def test_a_call_that_nobody_answers_ends_in_time_and_its_request_expires(alias: str) -> None:
    with pytest.raises(ResultTimeout):
        call("prices", 3, timeout_seconds=0.02, using=alias)
    with pytest.raises(ResultTimeout):
        asyncio.run(acall("prices", 3, timeout_seconds=0.02, using=alias))

    messages = Message.objects.using(alias)
    assert all(each.expires_at is not None for each in messages)
    with pytest.raises(ResultTimeout):
        asyncio.run(aget_result(publish("prices", 1, using=alias), using=alias))


def test_nobody_waits_in_a_transaction(alias: str) -> None:
    with transaction.atomic(using=alias):
        message_id = publish("prices", 3, keep_result_seconds=3600, using=alias)
        assert result_of(message_id, using=alias).status == "waiting"
        for waiting in (
            lambda: call("prices", 3, timeout_seconds=1, using=alias),
            lambda: get_result(message_id, timeout_seconds=1, using=alias),
        ):
            with pytest.raises(WaitInTransaction, match="transaction is open"):
                waiting()
    assert Message.objects.using(alias).count() == 1
    connections[alias].close()


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda alias: publish("prices", 1, keep_result_seconds=0, using=alias), InvalidMessage),
        (lambda alias: publish("prices", 1, keep_result_seconds=-1, using=alias), InvalidMessage),
        (lambda alias: publish("prices", 1, keep_result_seconds="1", using=alias), InvalidMessage),  # type: ignore[arg-type]
        (lambda alias: call("prices", 1, timeout_seconds=0, using=alias), InvalidMessage),
        (lambda alias: call("prices", 1, timeout_seconds=1, ttl=3, using=alias), InvalidMessage),
        (lambda alias: get_result("no id", using=alias), InvalidMessage),
        (lambda alias: get_result(uuid4(), timeout_seconds=-1, using=alias), InvalidMessage),
        (lambda alias: get_result(uuid4(), using=alias), UnknownResult),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    alias: str, act: Callable[[str], Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        act(alias)
    assert not Message.objects.using(alias).exists()


def test_queues_in_memory_keep_no_results() -> None:
    outgoing = OutgoingMessage(queue="prices", keep_result_seconds=60)
    for asking in (
        lambda: result_of(uuid4(), using=":memory:"),
        lambda: publish("prices", keep_result_seconds=60, using=":memory:"),
        lambda: publish_many([outgoing], using=":memory:"),
        lambda: call("prices", timeout_seconds=1, using=":memory:"),
    ):
        with pytest.raises(UnsupportedRule, match="memory do not support results that are kept"):
            asking()


@pytest.mark.django_db
def test_the_page_of_a_message_shows_its_result_masked(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["salary"]}
    row = MessageResult(
        message_id=uuid4(),
        queue_name="prices",
        status="succeeded",
        value='{"name":"<b>Ann \\ud800</b>","salary":7,"all":"%s"}' % ("x" * 60_000),
        finished_at=clock.now(),
        expires_at=clock.now() + timedelta(hours=1),
    )
    row.save()
    past = History(message_id=row.message_id)
    past._state.db = "default"

    shown = show_result(HttpRequest(), past)
    assert "succeeded, " in shown
    assert "&lt;b&gt;Ann \\ud800&lt;/b&gt;&quot;" in shown
    assert "&quot;salary&quot;: &quot;***&quot;" in shown
    assert len(shown) < 51_000

    MessageResult.objects.update(value=None, status="dead")
    assert "<pre" not in show_result(HttpRequest(), past)
    MessageResult.objects.update(
        value=b64encode(marked_with_key("k1", b"secret")).decode(), content_encoding="encrypted"
    )
    assert "encrypted with the key k1</pre>" in show_result(HttpRequest(), past)
    MessageResult.objects.all().delete()
    assert show_result(HttpRequest(), past) == ""
