"""Handlers that are coroutine functions, in a worker on a real database."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.dispatch import receiver

from django_mq import conf, signals
from django_mq.api import apublish, cancel, consumer, publish, publish_many
from django_mq.coroutines import pool as pools
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.handlers import Handler, Way
from django_mq.delivery.consumer.worker import Worker, Workers
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import ConfigurationError, HandlersHang, Reject, WorkerStopping
from django_mq.models import Attempt, History, Message, Queue, WorkerSession
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_handler
from tests.delivery.test_worker import reap_everybody
from tests.stores.builders import claim, open_session, settle
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite", once="postgresql")

tenant = ContextVar("tenant", default="none")


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queue ``orders``, which repeats failures at once."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
    declare(shared_store(committed_database), "orders")
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0)
    return committed_database


def an_async_handler(function: Callable[[Any], Any], **options: Any) -> Handler:
    return a_handler(function, way=Way.EVENT_LOOP, **options)


def a_worker(*given: Handler, using: str, slots: int = 100, threads: int = 4) -> Worker:
    return Worker(given, threads=slots, pool=partial(EventLoopPool, threads=threads), using=using)


@contextmanager
def running(*given: Handler, using: str, slots: int = 100) -> Iterator[Worker]:
    """A worker that works in a thread of its own, and is stopped in order."""
    worker = a_worker(*given, using=using, slots=slots)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the worker did not stop"


def finished(alias: str) -> int:
    return History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count()


def test_hundreds_wait_at_once_each_in_a_context_of_its_own(alias: str) -> None:
    begun, seen = Counter[str](), []
    all_wait = asyncio.Event()

    async def handle(message: Any) -> None:
        assert tenant.get() == "none"
        tenant.set(f"tenant {message.body}")
        begun["now"] += 1
        if begun["now"] == 300:
            all_wait.set()
        await asyncio.wait_for(all_wait.wait(), PATIENCE_SECONDS)
        seen.append((message.body, tenant.get()))

    publish_many([("orders", number) for number in range(300)])
    a_worker(an_async_handler(handle, credit=300), using=alias, slots=300).run(until_empty=True)

    assert sorted(seen) == [(number, f"tenant {number}") for number in range(300)]
    assert finished(alias) == 300
    assert not WorkerSession.objects.using(alias).exists()


def test_outcomes_are_those_of_plain_handlers(alias: str) -> None:
    Queue.objects.using(alias).update(max_attempts=2)
    attempts = Counter[str]()

    async def handle(message: Any) -> Any:
        attempts[message.body] += 1
        await asyncio.sleep(0)
        match message.body:
            case "fails":
                raise ValueError("bad total")
            case "rejects":
                raise Reject("not ours")
            case "fails once" if message.attempt == 1:
                raise ValueError("again")
            case "returns work":
                return asyncio.sleep(0)

    publish_many([("orders", body) for body in ("passes", "fails", "rejects", "fails once", "returns work")])
    a_worker(an_async_handler(handle), using=alias).run(until_empty=True)

    assert attempts == {"passes": 1, "fails": 2, "rejects": 1, "fails once": 2, "returns work": 2}
    dead = Message.objects.using(alias).filter(state=Message.Status.DEAD).values_list("dead_reason", flat=True)
    assert sorted(reason.partition(":")[0] for reason in dead) == ["HandlerNotRun", "Reject", "ValueError"]
    assert finished(alias) == 2


def test_an_attempt_uses_the_database_in_one_thread_and_leaves_nothing_there(alias: str) -> None:
    found: list[tuple[int, int, bool]] = []

    def use() -> tuple[int, bool]:
        connection = connections[alias]
        was_open = connection.in_atomic_block or not connection.get_autocommit()
        if not was_open:
            connection.set_autocommit(False)  # a transaction that nobody ends
        assert Queue.objects.using(alias).filter(name="orders").exists()
        return threading.get_ident(), was_open

    async def handle(_: Any) -> None:
        (first, was_open), (second, _) = [await sync_to_async(use)(), await sync_to_async(use)()]
        assert await Queue.objects.using(alias).filter(name="orders").aexists()
        found.append((first, second, was_open))

    publish_many([("orders", number) for number in range(12)])
    a_worker(an_async_handler(handle), using=alias, threads=3).run(until_empty=True)

    assert finished(alias) == 12
    assert all(first == second and not was_open for first, second, was_open in found)
    assert len({first for first, *_ in found}) <= 3


def test_a_function_of_to_thread_leaves_nothing_on_connections(alias: str) -> None:
    def use() -> bool:
        was_open = not connections[alias].get_autocommit()
        connections[alias].set_autocommit(False)
        return was_open

    async def handle(_: Any) -> None:
        assert not await asyncio.to_thread(use)

    publish_many([("orders", number) for number in range(5)])
    a_worker(an_async_handler(handle), using=alias, threads=1).run(until_empty=True)
    assert finished(alias) == 5


def test_a_task_that_outlives_its_attempt_cannot_use_the_database(alias: str) -> None:
    later: list[asyncio.Task[Any]] = []

    async def use() -> None:
        await asyncio.sleep(0.01)
        await Queue.objects.using(alias).aexists()

    async def handle(_: Any) -> None:
        later.append(asyncio.create_task(use()))

    publish("orders", 1)
    with running(an_async_handler(handle), using=alias):
        wait_until(lambda: later and later[0].done())
    assert isinstance(later[0].exception(), RuntimeError)


def test_a_handler_publishes_from_the_loop(alias: str) -> None:
    declare(shared_store(alias), "letters")

    async def handle(message: Any) -> None:
        if message.queue == "orders":
            await apublish("letters", message.body, using=alias)

    publish_many([("orders", number) for number in range(10)])
    given = an_async_handler(handle), an_async_handler(handle, queue="letters")
    a_worker(*given, using=alias).run(until_empty=True)
    assert finished(alias) == 20


def test_signals_and_middleware_are_around_the_attempt(alias: str) -> None:
    log: list[str] = []

    class Around:
        def process(self, attempt: Any, proceed: Any) -> Any:
            log.append(f"begin {attempt.outcome(None)}")
            try:
                return proceed()
            finally:
                log.append("end")

    async def handle(_: Any) -> None:
        await asyncio.sleep(0)
        log.append("handler")

    @receiver(signals.attempt_started)
    def started(**_: Any) -> None:
        Queue.objects.using(alias).exists()
        log.append("started")

    @receiver(signals.attempt_finished)
    def ended(outcome: str, **_: Any) -> None:
        log.append(outcome)

    from django_mq.seams.extension import Extension

    conf.add_extension(Extension(name="around", middleware=(Around(),)))
    publish("orders", 1)
    try:
        a_worker(an_async_handler(handle), using=alias).run(until_empty=True)
    finally:
        conf.remove_extension("around")
        signals.attempt_started.disconnect(started)
        signals.attempt_finished.disconnect(ended)
    assert log == ["started", "begin accepted", "handler", "end", "accepted"]


# Time limits, and the end.


def test_a_time_limit_cancels_the_coroutine(alias: str) -> None:
    Queue.objects.using(alias).update(max_attempts=1)
    cleaned: list[int] = []

    async def handle(message: Any) -> None:
        try:
            await asyncio.sleep(PATIENCE_SECONDS)
        finally:
            cleaned.append(message.body)

    publish("orders", 1)
    with running(an_async_handler(handle, time_limit_seconds=0.01), using=alias):
        wait_until(lambda: Message.objects.using(alias).filter(state=Message.Status.DEAD).exists())

    assert cleaned == [1]
    assert Attempt.objects.using(alias).get().error == "HandlerTimeout"


def test_a_cancel_of_its_message_cancels_the_coroutine(alias: str) -> None:
    begun, ended = threading.Event(), list[str]()

    async def handle(_: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE_SECONDS)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    message_id = publish("orders", 1)
    with running(an_async_handler(handle), using=alias):
        assert begun.wait(PATIENCE_SECONDS)
        cancel(message_id, running=True, using=alias)
        wait_until(lambda: not Message.objects.using(alias).exists())

    assert ended == ["cancelled"]
    assert History.objects.using(alias).get().outcome == History.Outcome.CANCELLED


def test_a_coroutine_that_does_not_end_when_it_is_cancelled_is_given_up(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "GRACE_SECONDS", 0.01)
    Queue.objects.using(alias).update(max_attempts=1)
    end = asyncio.Event()

    async def handle(message: Any) -> None:
        while message.body == 1 and not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    publish("orders", 1)
    with running(an_async_handler(handle, time_limit_seconds=0.01), using=alias) as worker:
        wait_until(lambda: Message.objects.using(alias).filter(state=Message.Status.DEAD).exists())
        assert worker._pool.abandoned == 1
        publish("orders", 2)
        wait_until(lambda: finished(alias) == 1)
        worker._pool._loop.call_soon_threadsafe(end.set)  # type: ignore[attr-defined]
        wait_until(lambda: worker._pool.abandoned == 0)


def test_a_coroutine_that_blocks_the_loop_is_named_with_its_stack(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = threading.Event()

    async def compute(message: Any) -> None:
        assert said.wait(PATIENCE_SECONDS)

    publish("orders", 1)
    with running(an_async_handler(compute), using=alias):
        wait_until(lambda: "keeps the event loop" in caplog.text)
        said.set()
        wait_until(lambda: finished(alias) == 1)
        wait_until(lambda: "The event loop runs again" in caplog.text)
    assert f"Handler {__name__}" in caplog.text
    assert "said.wait(PATIENCE_SECONDS)" in caplog.text


def test_a_handler_that_blocks_the_loop_beyond_its_time_limit_ends_the_worker(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "GRACE_SECONDS", 0.5)
    end = threading.Event()

    async def handle(message: Any) -> None:
        if message.body == "waits":
            await asyncio.sleep(PATIENCE_SECONDS)
        end.wait(PATIENCE_SECONDS)

    publish_many([("orders", "waits"), ("orders", "blocks")])
    declare(shared_store(alias), "letters")
    worker = a_worker(an_async_handler(handle, time_limit_seconds=1), using=alias)
    try:
        with pytest.raises(HandlersHang):
            worker.run()
    finally:
        end.set()
    assert Message.objects.using(alias).filter(session=None).count() == 2


def test_a_worker_that_stops_waits_for_coroutines(alias: str) -> None:
    begun = threading.Event()

    async def handle(_: Any) -> None:
        begun.set()
        await asyncio.sleep(0.2)

    publish("orders", 1)
    with running(an_async_handler(handle), using=alias) as worker:
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop()
    assert finished(alias) == 1


def test_a_worker_that_stops_at_once_cancels_and_then_gives_back(alias: str) -> None:
    begun, states, outcomes = threading.Event(), [], []

    @receiver(signals.attempt_finished)
    def ended(outcome: str, error: BaseException, **_: Any) -> None:
        outcomes.append((outcome, type(error)))

    async def handle(message: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE_SECONDS)
        finally:
            await asyncio.sleep(0.01)
            states.append(
                Message.Status(await Message.objects.using(alias).values_list("state", flat=True).aget())
            )

    publish("orders", 1)
    with running(an_async_handler(handle), using=alias) as worker:
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop(at_once=True)

    assert states == [Message.Status.CLAIMED]
    assert outcomes == [("released", WorkerStopping)]
    row = Message.objects.using(alias).get()
    assert (row.state, row.attempts) == (Message.Status.READY, 0)


def test_a_lost_session_writes_the_outcomes_of_what_runs(alias: str) -> None:
    begun, go_on = threading.Semaphore(0), asyncio.Event()

    async def handle(_: Any) -> None:
        begun.release()
        await go_on.wait()

    publish_many([("orders", 1), ("orders", 2)])
    with closing(private_store(alias)) as store, running(an_async_handler(handle), using=alias) as worker:
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        lost, other = worker.session, open_session(store)
        with lost.state.lock:  # so that the other comes first, and the session cannot take both back
            reap_everybody(alias, spare=other)
            [taken] = wait_until(lambda: claim(store, other, credit=1))
        wait_until(lambda: worker.session is not lost)
        worker._pool._loop.call_soon_threadsafe(go_on.set)  # type: ignore[attr-defined]
        wait_until(lambda: finished(alias) == 1)
        assert settle(store, other, taken, Verdict.ACCEPT) == frozenset()
    assert not Message.objects.using(alias).exists()


# Plain and async ones beside each other.


def test_plain_and_async_handlers_of_one_process_share_a_queue_by_selectors(alias: str) -> None:
    found: dict[str, list[Any]] = {"plain": [], "async": []}

    def plain(message: Any) -> None:
        found["plain"].append(message.body)

    async def asynchronous(message: Any) -> None:
        await asyncio.sleep(0)
        found["async"].append(message.body)

    given = (a_handler(plain), an_async_handler(asynchronous, selector="web"))
    for number in range(20):
        publish("orders", number, headers={"web": number % 2 == 0})
    Workers(
        [
            Worker(given[:1], threads=2, of_process=given, using=alias),
            Worker(given[1:], threads=50, pool=partial(EventLoopPool, threads=2), of_process=given, using=alias),
        ]
    ).run(until_empty=True)

    assert sorted(found["plain"]) == list(range(1, 20, 2))
    assert sorted(found["async"]) == list(range(0, 20, 2))


# Declarations.


async def a_handler_of_orders(_: Any) -> None: ...


class CallableHandler:
    async def __call__(self, _: Any) -> None: ...

    async def method(self, _: Any) -> None: ...


@pytest.fixture
def _forget() -> Iterator[None]:
    yield
    handlers.forget("declared-here")


@pytest.mark.usefixtures("_forget")
def test_coroutine_functions_run_on_the_event_loop() -> None:
    for function in (
        a_handler_of_orders,
        CallableHandler(),
        CallableHandler().method,
        partial(a_handler_of_orders),
    ):
        consumer("declared-here")(function)
        assert handlers.handler_of("declared-here").way is Way.EVENT_LOOP
        handlers.forget("declared-here")
    consumer("declared-here")(lambda _: None)
    assert handlers.handler_of("declared-here").way is Way.THREADS


def test_a_coroutine_function_cannot_be_transactional() -> None:
    with pytest.raises(
        ConfigurationError, match=r"a_handler_of_orders, .* Django has no transactions in async code"
    ):
        consumer("declared-here", transactional=True)(a_handler_of_orders)
