"""What the publisher's code has, the handler has, through every way to publish and to run."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.app.trace import build_tracer
from django.utils import translation

from django_mq import conf
from django_mq.api import publish
from django_mq.delivery.codecs import decode_headers
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.engine.decisions.verdict import Verdict
from django_mq.integrations.celery import failures
from django_mq.middleware.request_id import RequestIDFilter, request_id
from django_mq.middleware.tenant import current_tenant
from django_mq.models import Message
from django_mq.seams.middleware import Execution, asurrounded
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy
from tests.seams.test_middleware import ALIAS, DOORS, WORKER, orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

__all__ = ["orders"]


@contextmanager
def holding(variable: Any, value: str) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


#: The path and the header of each middleware, how the publisher's code has the value, and how a handler reads it.
CARRIED: dict[str, tuple[str, Callable[[], Any], Callable[[], str], str]] = {
    "tenant": (
        "django_mq.middleware.tenant.TenantMiddleware",
        lambda: holding(current_tenant, "acme"),
        current_tenant.get,
        "acme",
    ),
    "language": (
        "django_mq.middleware.locale.LocaleMiddleware",
        lambda: translation.override("de"),
        lambda: translation.get_language() or "",
        "de",
    ),
    "request_id": (
        "django_mq.middleware.request_id.RequestIDMiddleware",
        lambda: holding(request_id, "6f2c"),
        request_id.get,
        "6f2c",
    ),
}


@pytest.fixture(params=CARRIED)
def header(request: pytest.FixtureRequest, settings: Settings) -> str:
    settings.DJANGO_MQ = {"MIDDLEWARE": [CARRIED[request.param][0]]}
    name: str = request.param
    return name


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_every_way_to_publish_writes_the_header(orders: str, header: str, door: str) -> None:
    _, entered, _, value = CARRIED[header]

    with entered():
        DOORS[door][0]()

    found = Message.objects.using(ALIAS).values_list(f"headers__{header}", flat=True)
    assert set(found) == {value}


def test_a_header_of_the_publisher_is_kept_and_without_a_value_there_is_none(orders: str, header: str) -> None:
    _, entered, _, _ = CARRIED[header]

    with entered():
        publish("orders", 1, headers={header: "own"})
    with translation.override(None, deactivate=True):
        publish("orders", 2)

    assert [row.headers for row in Message.objects.using(ALIAS).order_by("id")] == [{header: "own"}, {}]


def by_function(stored: str, read: Callable[[], str]) -> str:
    seen: list[str] = []
    delivery = Delivery(a_claimed(headers=stored), a_handler(lambda _: seen.append(read())), a_policy())
    assert delivery.run().verdict is Verdict.ACCEPT
    return seen[0]


def by_coroutine(stored: str, read: Callable[[], str]) -> str:
    delivery = Delivery(a_claimed(headers=stored), a_handler(), a_policy())
    attempt = Execution(message=delivery.message, handler=delivery.handler, outcome=delivery.outcome)

    async def handler(_: Execution) -> str:
        await asyncio.sleep(0)
        return read()

    return str(asyncio.run(asurrounded(conf.middleware().async_attempts, attempt, handler)))


def by_celery(stored: str, read: Callable[[], str]) -> str:
    app = Celery("unit", broker="memory://", set_as_current=False)

    def work() -> str:
        return read()

    task = app.task(work, name="read", shared=False)
    failures.cover(task, ALIAS)
    request = {"id": "1", "args": [], "kwargs": {}, "delivery_info": {}, **decode_headers(stored)}
    return str(build_tracer("read", task, app=app)("1", [], {}, request).retval)


@pytest.mark.parametrize("run", [by_function, by_coroutine, by_celery])
def test_every_way_to_run_has_the_value_while_it_runs(header: str, run: Any) -> None:
    _, _, read, value = CARRIED[header]
    before = read()

    assert run(f'{{"{header}":"{value}"}}', read) == value
    # Without the header, with none that can be the value, and for the next message: as in the worker itself.
    assert [run(stored, read) for stored in ("{}", f'{{"{header}":7}}')] == [before] * 2
    assert read() == before


def test_what_a_handler_publishes_carries_the_value_on(orders: str, header: str) -> None:
    _, entered, _, value = CARRIED[header]
    with entered():
        publish("orders", 1)
    store = shared_store(ALIAS)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed

    Delivery(claimed, a_handler(lambda _: publish("orders", 2)), a_policy()).run()

    assert [row.headers for row in Message.objects.using(ALIAS)] == [{header: value}] * 2


@pytest.mark.parametrize("language", ["xx", "../../etc", "de\x00"])
def test_a_language_that_the_project_has_not_is_left_out(settings: Settings, language: str) -> None:
    settings.DJANGO_MQ = {"MIDDLEWARE": [CARRIED["language"][0]]}
    (process,) = conf.middleware().attempts
    message = type("Message", (), {"headers": {"language": language}})

    assert process(Execution(message=message, handler=None, outcome=repr), translation.get_language) == "en-us"  # type: ignore[arg-type]


def test_the_filter_adds_the_id_to_each_line_of_a_log() -> None:
    formatter, record = logging.Formatter("[%(request_id)s] %(message)s"), logging.makeLogRecord({"msg": "paid"})

    with holding(request_id, "6f2c"):
        assert RequestIDFilter().filter(record)

    assert formatter.format(record) == "[6f2c] paid"
    RequestIDFilter().filter(record)
    assert formatter.format(record) == "[-] paid"


def test_the_line_of_a_failed_attempt_has_the_id_of_its_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.filtering(RequestIDFilter()):
        for stored in ('{"request_id": "6f2c"}', "{}", "["):
            Delivery(a_claimed(headers=stored), a_handler(lambda _: 1 / 0), a_policy()).run()

    assert [record.request_id for record in caplog.records] == ["6f2c", "-", "-"]  # type: ignore[attr-defined]
