"""Several workers of one process: they share the selectors of its handlers, and end together."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import Decline, publish
from django_mq.delivery.consumer.handlers import Way
from django_mq.delivery.consumer.kinds import check_kinds
from django_mq.delivery.consumer.worker import Emptiness, Worker, Workers
from django_mq.delivery.queues import declare
from django_mq.errors import ConfigurationError, StoreError
from django_mq.models import Consumer, Message, WorkerSession
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.delivery.consumer.handlers import Handler

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture
def alias(committed_database: str) -> str:
    """A database with the queues ``orders`` and ``letters``."""
    for name in ("orders", "letters"):
        declare(shared_store(committed_database), name)
    return committed_database


def workers_of(*handlers: Handler, using: str, slots: int = 2) -> Workers:
    """A worker of its own for each handler."""
    return Workers(Worker([each], threads=slots, of_process=handlers, using=using) for each in handlers)


def test_a_handler_without_a_selector_gets_what_no_handler_of_the_process_wants(alias: str) -> None:
    found: dict[str, list[int]] = {"rest": [], "large": [], "vip": []}
    handlers = [
        a_handler(lambda message: found["rest"].append(message.body)),
        a_handler(lambda message: found["large"].append(message.body), selector="size > 5"),
        a_handler(lambda message: found["vip"].append(message.body), selector="vip"),
    ]
    for number in range(30):
        publish("orders", number, headers={"size": number % 10, "vip": number % 2 == 0})

    workers_of(*handlers, using=alias).run(until_empty=True)

    # The first selector that matches has the message, in the order of declaration.
    large = [number for number in range(30) if number % 10 > 5]
    vip = [number for number in range(30) if number % 10 <= 5 and number % 2 == 0]
    assert sorted(found["large"]) == large
    assert sorted(found["vip"]) == vip
    assert sorted(found["rest"]) == sorted(set(range(30)) - {*large, *vip})


@contextmanager
def at_work(*handlers: Handler, using: str) -> Iterator[None]:
    """Workers that work in threads of their own, and are stopped in order."""
    workers = workers_of(*handlers, using=using)
    thread = threading.Thread(target=workers.run)
    thread.start()
    try:
        yield
    finally:
        workers.stop()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


@pytest.mark.once
def test_what_a_worker_declines_is_dead_though_others_of_its_process_would_match(
    alias: str, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DECLINE_GRACE_SECONDS": 0.3}
    rest: list[int] = []

    def decline(_: Any) -> None:
        raise Decline

    handlers = [
        a_handler(lambda message: rest.append(message.body)),
        a_handler(decline, selector="size > 5"),
        a_handler(decline, selector="size > 7"),
    ]
    for size in (1, 6, 9):
        publish("orders", size, headers={"size": size})
    publish("orders", 0)

    dead = Message.objects.using(alias).filter(state=Message.Status.DEAD)
    with at_work(*handlers, using=alias):
        wait_until(lambda: dead.count() == 2)
        wait_until(lambda: sorted(rest) == [0, 1])

    assert {message.dead_reason for message in dead} == {"declined by all consumers"}


def test_a_worker_waits_for_no_better_one_of_its_process_that_does_not_get_the_message(
    alias: str, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 6}  # consumers are written at each renewal
    large: list[int] = []
    handlers = [
        a_handler(priority=5),
        a_handler(lambda message: large.append(message.body), selector="size > 5"),
    ]

    with at_work(*handlers, using=alias):
        wait_until(lambda: Consumer.objects.using(alias).count() == 2)
        publish("orders", 9, headers={"size": 9})
        wait_until(lambda: large == [9])


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"exclusive": True}, "exclusive=True"),
        ({"grouping": "sole"}, "grouping='sole'"),
        ({"max_consumers": 1}, "max_consumers=1"),
    ],
)
def test_workers_of_a_queue_that_fewer_may_receive_from_are_refused(
    alias: str, settings: Settings, options: dict[str, Any], limit: str
) -> None:
    plain, coroutine = a_handler(), a_handler(selector="size > 5", way=Way.EVENT_LOOP)
    declare(shared_store(alias), "lone", options)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"planned": options}}

    check_kinds([plain, coroutine], using=alias)
    for queue in ("lone", "planned"):
        own, other = replace(plain, queue=queue), replace(coroutine, queue=queue)
        check_kinds([own, replace(other, way=Way.THREADS)], using=alias)
        with pytest.raises(ConfigurationError, match=f"'{queue}' run in 2 workers .* {limit} lets only 1 of them"):
            check_kinds([own, other], using=alias)


def test_selectors_that_are_together_too_long_are_refused(alias: str) -> None:
    texts = [f"JMSType = '{number}{'x' * 300}'" for number in range(4)]
    handlers = [a_handler(), *(a_handler(selector=text, way=Way.EVENT_LOOP) for text in texts)]

    check_kinds(handlers[:3], using=alias)
    with pytest.raises(ConfigurationError, match="together are longer than 1,000 characters"):
        check_kinds(handlers, using=alias)


def test_until_empty_ends_when_the_queues_of_all_workers_are_empty(alias: str) -> None:
    def pass_on(message: Any) -> None:
        if message.body:
            publish("letters" if message.queue == "orders" else "orders", message.body - 1, using=alias)

    publish("orders", 20)
    handlers = a_handler(pass_on), a_handler(pass_on, queue="letters")

    workers_of(*handlers, using=alias).run(until_empty=True)

    assert not Message.objects.using(alias).exists()
    assert not WorkerSession.objects.using(alias).exists()


def test_all_workers_stop_together(alias: str) -> None:
    gate, begun = threading.Event(), threading.Barrier(3)

    def wait(_: Any) -> None:
        begun.wait(PATIENCE_SECONDS)
        gate.wait(PATIENCE_SECONDS)

    publish("orders", 1)
    publish("letters", 1)
    workers = workers_of(a_handler(wait), a_handler(wait, queue="letters"), using=alias)
    thread = threading.Thread(target=workers.run)
    thread.start()
    try:
        begun.wait(PATIENCE_SECONDS)
        assert workers.running == 2
        workers.stop()
    finally:
        gate.set()
        thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert not Message.objects.using(alias).exists()


def test_an_error_of_one_worker_ends_all_and_is_raised(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = workers_of(a_handler(), a_handler(queue="letters"), using=alias)
    first, second = workers

    def refuse() -> bool:
        wait_until(lambda: first.session.id is not None)
        raise StoreError("refused")

    monkeypatch.setattr(second, "turn", refuse)
    with pytest.raises(StoreError, match="refused"):
        workers.run()

    assert not WorkerSession.objects.using(alias).exists()


def test_each_worker_looks_again_after_another_one_has_worked() -> None:
    first: Any
    second: Any
    first, second = object(), object()
    emptiness = Emptiness(2)
    assert [emptiness.is_over(each) for each in (first, second, first)] == [False, False, False]

    emptiness.has_worked(second)
    assert [emptiness.is_over(each) for each in (first, second, first, second)] == [False] * 4

    assert emptiness.is_over(first)
    assert emptiness.is_over(second)


def test_no_worker_waits_for_one_that_was_told_to_end() -> None:
    first: Any
    second: Any
    first, second = object(), object()
    emptiness = Emptiness(2)
    assert [emptiness.is_over(each) for each in (first, second, second)] == [False] * 3

    emptiness.leave(second)
    assert [emptiness.is_over(first), emptiness.is_over(first)] == [False, True]


def test_a_worker_alone_looks_again_after_its_own_work() -> None:
    worker: Any = object()
    emptiness = Emptiness(1)
    assert [emptiness.is_over(worker), emptiness.is_over(worker)] == [False, True]
