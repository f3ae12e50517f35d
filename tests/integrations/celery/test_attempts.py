"""The middleware of attempts is around the bodies of Celery tasks, in the process that runs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Task
from celery.app.trace import build_tracer
from celery.exceptions import Ignore, Reject, Retry
from django.db import transaction

from django_mq import conf
from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.publisher import with_headers
from django_mq.delivery.queues import declare
from django_mq.errors import MiddlewareMisused, Skip, UnfitBody
from django_mq.integrations.celery import failures
from django_mq.integrations.celery.attempts import outcome
from django_mq.integrations.celery.native import deliver, pack
from django_mq.integrations.celery.step import install
from django_mq.models import Message
from django_mq.seams.extension import Extension
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store
from tests.stores.builders import a_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery import Celery
    from pytest_django import Settings

    from django_mq.seams.middleware import Execution, Proceed, Publication

WORKER = SessionInfo(name="w", kind="celery", host="h", pid=1, version="1")


class CallingTask(Task):  # type: ignore[type-arg]  # generic in the stubs only
    """A task with a __call__ of its own."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


@pytest.fixture
def seen() -> Iterator[list[Execution]]:
    """The attempts that a middleware was around; it adds one to the first argument."""
    noted: list[Execution] = []

    def note(attempt: Execution, proceed: Proceed) -> Any:
        noted.append(attempt)
        first, *others = attempt.message.args
        return proceed(replace(attempt, message=replace(attempt.message, args=[first + 1, *others])))

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(process=note),)))
    yield noted
    conf.remove_extension("test")


@pytest.fixture
def run_one(app: Celery) -> Callable[..., Any]:
    """Runs a task as a worker's pool does; returns what the task returned, or what it raised."""

    def run(body: Callable[..., Any], *args: Any, **options: Any) -> Any:
        task = app.task(body, name=f"work {uuid4()}", shared=False, **options)
        failures.cover(task, conf.load().DATABASE)
        request = {"id": str(uuid4()), "args": args, "kwargs": {}, "delivery_info": {"routing_key": "celery"}}
        found = build_tracer(task.name, task, app=app)(request["id"], list(args), {}, request)
        return found.retval if found.info is None else found.info.retval

    return run


@pytest.mark.parametrize("options", [{}, {"bind": True}, {"base": CallingTask}], ids=str)
def test_a_task_that_runs_for_a_message_has_the_middleware_once(
    run_one: Callable[..., Any], seen: list[Execution], options: dict[str, Any]
) -> None:
    def work(*args: Any) -> Any:
        return args[-1] + args[-2]

    assert run_one(work, 1, 2, **options) == 4

    (attempt,) = seen
    message = attempt.message
    assert (message.type, message.queue, message.attempt) == (attempt.handler.name, "celery", 1)
    assert (list(message.args), message.kwargs) == ([1, 2], {})
    assert message.headers["id"] == message.id


def test_a_call_of_a_task_by_other_code_has_none(app: Celery, run_one: Any, seen: list[Execution]) -> None:
    def same(number: int) -> int:
        return number

    inner = app.task(same, name="inner", shared=False)
    failures.cover(inner, conf.load().DATABASE)

    def outer(task: Any, number: int) -> list[int]:
        again = [task.run(0)] if number else []
        return [inner(number), inner.apply([number]).get(), *again] if number else [0]

    assert run_one(outer, 1, bind=True) == [2, 2, [0]]
    assert len(seen) == 1


def test_a_refusal_is_the_failure_of_the_task(run_one: Any) -> None:
    def refuse(attempt: Execution, proceed: Proceed) -> Any:
        raise PermissionError("not this one")

    def note() -> None:
        raise AssertionError

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(process=refuse),)))
    try:
        error = run_one(note)
    finally:
        conf.remove_extension("test")

    assert isinstance(error, PermissionError)


def never(attempt: Execution, proceed: Proceed) -> None:
    """Forget to proceed."""


def twice(attempt: Execution, proceed: Proceed) -> Any:
    proceed()
    return proceed()


@pytest.mark.parametrize(("wrong", "runs"), [(never, 0), (twice, 1)])
def test_a_middleware_that_does_not_proceed_once_is_the_failure_of_the_task(
    run_one: Any, wrong: Any, runs: int
) -> None:
    ran: list[int] = []

    def note() -> None:
        ran.append(1)

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(process=wrong),)))
    try:
        error = run_one(note)
    finally:
        conf.remove_extension("test")

    assert isinstance(error, MiddlewareMisused)
    assert len(ran) == runs


def test_a_task_that_a_middleware_skips_is_ignored(run_one: Any) -> None:
    def skip(attempt: Execution, proceed: Proceed) -> Any:
        raise Skip

    def note() -> None:
        raise AssertionError

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(process=skip),)))
    try:
        error = run_one(note)
    finally:
        conf.remove_extension("test")

    assert isinstance(error, Ignore)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (None, "accepted"),
        (Ignore(), "accepted"),
        (Skip(), "accepted"),
        (Retry(), "retried"),
        (Reject(requeue=True), "released"),
        (Reject(), "dead"),
        (ValueError(), "failed"),
    ],
    ids=repr,
)
def test_the_outcome_of_a_task_has_a_name(error: BaseException | None, named: str) -> None:
    assert outcome(error) == named


def test_a_retry_is_a_publish_in_a_transaction_of_its_own(run_one: Any, committed_database: str) -> None:
    def tenant(publication: Publication, proceed: Proceed) -> None:
        stamped = [with_headers(each, {"x-tenant": "a"}) for each in publication.messages]
        proceed(replace(publication, messages=stamped))

    def work(task: Any) -> None:
        with transaction.atomic(using=committed_database):
            task.retry(countdown=3600)

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(publish=tenant),)))
    try:
        run_one(work, bind=True)
    finally:
        conf.remove_extension("test")

    assert Message.objects.using(committed_database).get().headers == {"x-tenant": "a"}


def test_a_worker_whose_middleware_cannot_be_imported_does_not_start(app: Celery, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MIDDLEWARE": ["nowhere.Tenant"]}

    with pytest.raises(SystemExit, match=r"or middleware cannot be loaded: UnusableMiddleware: .*nowhere"):
        install(SimpleNamespace(app=app))


def test_a_worker_with_handlers_of_two_kinds_of_an_exclusive_queue_does_not_start(
    app: Celery, committed_database: str
) -> None:
    declare(shared_store(committed_database), "lone", {"exclusive": True})
    consumer("lone")(print)
    consumer("lone", selector="size > 5", bulk=10)(repr)
    try:
        with pytest.raises(SystemExit, match=r"ConfigurationError: .*'lone' run in 2 workers"):
            install(SimpleNamespace(app=app))
    finally:
        forget("lone")


@pytest.mark.usefixtures("app")
def test_a_typed_handler_gets_an_object_in_the_pool_and_a_body_that_does_not_fit_is_dead(
    committed_database: str,
) -> None:
    got: list[Any] = []
    store = shared_store(committed_database)
    declare(store, "orders")
    session = store.sessions.open(WORKER, deadline_seconds=60)
    for body in (b'["2031-01-31"]', b'["soon"]'):
        store.publications.append(a_message(body=body, content_type="application/json"))
    fits, does_not = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=2)).claimed

    @consumer("orders")
    def handle(days: list[date]) -> None:
        got.append(days)

    try:
        deliver(committed_database, session, pack(fits))
        with pytest.raises(UnfitBody, match=r"does not fit list\[datetime.date\]: \[0\] must be a date"):
            deliver(committed_database, session, pack(does_not))
    finally:
        forget("orders")

    assert got == [[date(2031, 1, 31)]]
    dead = Message.objects.using(committed_database).get(state=Message.Status.DEAD)
    assert "does not fit" in dead.dead_reason


@pytest.mark.parametrize("transactional", [False, True])
def test_a_handler_that_a_middleware_skips_is_settled_in_the_pool(
    app: Celery, committed_database: str, transactional: bool
) -> None:
    store = shared_store(committed_database)
    declare(store, "orders")
    session = store.sessions.open(WORKER, deadline_seconds=60)
    store.publications.append(a_message())
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    consumer("orders", transactional=transactional)(lambda _: 1 / 0)

    def skip(attempt: Execution, proceed: Proceed) -> Any:
        raise Skip

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(process=skip),)))
    try:
        deliver(committed_database, session, pack(claimed))
    finally:
        conf.remove_extension("test")
        forget("orders")

    # Without a transaction, the parent accepts what the handler has not failed.
    assert Message.objects.using(committed_database).exists() is not transactional
