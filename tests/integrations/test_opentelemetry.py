"""One trace from the publisher to the handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from django_mq.api import publish, publish_many
from django_mq.delivery.declaring import declare
from django_mq.delivery.executing import Attempt
from django_mq.delivery.handlers import Handler
from django_mq.integrations.opentelemetry import instrument, uninstrument
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan

#: One database is enough: headers and threads are the same on all.
ALIAS = "default"
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")


@pytest.fixture
def provider(transactional_db: None) -> Iterator[TracerProvider]:
    declare(shared_store(ALIAS), "orders")
    provider = TracerProvider()
    instrument(provider)
    yield provider
    uninstrument()


@pytest.fixture
def spans(provider: TracerProvider) -> Callable[[], list[ReadableSpan]]:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return lambda: list(exporter.get_finished_spans())


def attempt(function: Callable[[Any], Any]) -> None:
    """Claim the next message and give it to the function."""
    store = shared_store(ALIAS)
    session = store.open_session(WORKER, deadline_seconds=60)
    (claimed,) = store.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    policy = store.queue("orders")
    assert policy is not None
    Attempt(claimed, Handler(queue="orders", function=function, credit=1, time_limit_seconds=None), policy).run()


def test_a_handler_runs_under_the_publishers_span(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    seen = []
    with provider.get_tracer("shop").start_as_current_span("checkout") as checkout:
        message_id = publish("orders", {"n": 1})

    attempt(lambda message: seen.append(trace.get_current_span().get_span_context().span_id))

    _, process = spans()
    assert process.name == "process orders"
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is not None
    assert process.parent.span_id == checkout.get_span_context().span_id
    assert seen == [process.context.span_id]
    assert process.attributes is not None
    assert process.attributes["messaging.message.id"] == str(message_id)
    assert process.attributes["django_mq.outcome"] == "accepted"
    assert trace.get_current_span().get_span_context().span_id == 0


def test_a_failed_attempt_is_a_failed_span(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    publish("orders", 1)

    def fail(message: Any) -> None:
        raise ValueError("no stock")

    attempt(fail)

    (span,) = spans()
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


def test_a_context_of_the_callers_own_is_kept(provider: TracerProvider) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with provider.get_tracer("shop").start_as_current_span("checkout"):
        publish("orders", 1, headers={"traceparent": own})

    assert Message.objects.using(ALIAS).get().headers["traceparent"] == own


def test_a_batch_carries_it_too(provider: TracerProvider) -> None:
    with provider.get_tracer("shop").start_as_current_span("checkout"), transaction.atomic(using=ALIAS):
        publish_many([("orders", 1), ("orders", 2)])

    headers = Message.objects.using(ALIAS).values_list("headers", flat=True)
    assert len({found["traceparent"] for found in headers}) == 1


@pytest.mark.parametrize("header", [{"traceparent": 5}, {"traceparent": "nonsense"}, {"traceparent": None}])
def test_a_header_that_is_no_context_begins_a_trace(
    provider: TracerProvider,
    spans: Callable[[], list[ReadableSpan]],
    header: dict[str, Any],
) -> None:
    publish("orders", 1, headers=header)

    attempt(lambda message: None)

    (span,) = spans()
    assert span.parent is None


def test_instrumenting_twice_is_instrumenting_once(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    instrument(provider)
    publish("orders", 1)

    attempt(lambda message: None)

    assert len(spans()) == 1
