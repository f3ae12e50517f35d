"""One trace from the publisher to the handler."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from django_mq.api import publish, publish_many
from django_mq.bulk.call import BulkCall
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import Handler, Way
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.operator.redrives import redrive
from django_mq.delivery.queues import declare
from django_mq.diagnosis.messages.copies import copy_of
from django_mq.integrations.opentelemetry import instrument, uninstrument
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy

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


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent and span.parent.span_id


def attempt(function: Callable[[Any], Any]) -> None:
    """Claim the next message and give it to the function."""
    store = shared_store(ALIAS)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    policy = store.queues.find("orders")
    assert policy is not None
    handler = Handler(queue="orders", function=function, credit=1, time_limit_seconds=None)
    store.settlements.settle(session, [Delivery(claimed, handler, policy).run()])


def test_a_handler_runs_under_the_publishers_span(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    seen = []
    with provider.get_tracer("shop").start_as_current_span("checkout") as checkout:
        message_id = publish("orders", {"n": 1})

    attempt(lambda message: seen.append(trace.get_current_span().get_span_context().span_id))

    published, _, process = spans()
    assert (published.name, published.kind) == ("publish orders", SpanKind.PRODUCER)
    assert parent_of(published) == checkout.get_span_context().span_id
    assert (process.name, process.kind) == ("process orders", SpanKind.CONSUMER)
    assert parent_of(process) == published.context.span_id
    assert [link.context.span_id for link in process.links] == [published.context.span_id]
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
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ValueError"
    assert span.attributes["django_mq.outcome"] == "retried"


def test_the_attributes_are_those_of_the_conventions(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    with provider.get_tracer("shop").start_as_current_span("checkout"):
        message_id = publish("orders", 1, correlation_id="cart 7", priority=6)

    attempt(lambda message: None)

    published, _, process = spans()
    messaging = {"messaging.system": "django_mq", "messaging.destination.name": "orders"}
    operation = {"messaging.operation.name": "publish", "messaging.operation.type": "create"}
    assert published.attributes == messaging | operation
    assert process.attributes == messaging | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": str(message_id),
        "messaging.message.conversation_id": "cart 7",
        "django_mq.attempt": 1,
        "django_mq.priority": 6,
        "django_mq.redelivered": False,
        "django_mq.outcome": "accepted",
    }


def test_whoever_is_in_no_trace_begins_none_by_publishing(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    publish("orders", 1)

    assert spans() == []
    assert Message.objects.using(ALIAS).get().headers == {}


def test_each_attempt_stands_under_the_publish_also_after_a_dead_letter_was_sent_back(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    declare(shared_store(ALIAS), "letters")
    edit_queue("orders", {"dead_letter_queue": "letters", "max_attempts": 2, "backoff_seconds": 0}, using=ALIAS)
    with provider.get_tracer("shop").start_as_current_span("checkout"):
        publish("orders", 1)

    def fail(message: Any) -> None:
        raise ValueError("no stock")

    attempt(fail)
    attempt(fail)
    assert redrive("letters", using=ALIAS).total == 1
    attempt(lambda message: None)

    published, _, *attempts = spans()
    assert [parent_of(span) for span in attempts] == 3 * [published.context.span_id]
    assert [(span.attributes or {})["django_mq.outcome"] for span in attempts] == ["retried", "dead", "accepted"]


def test_a_copy_is_no_part_of_the_old_trace(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    with provider.get_tracer("shop").start_as_current_span("checkout"):
        first = publish("orders", 1)
    with provider.get_tracer("shop").start_as_current_span("mending"):
        publish_many([replace(copy_of(first, using=ALIAS), queue="orders")], using=ALIAS)

    attempt(lambda message: None)
    attempt(lambda message: None)

    old, _, new, _, *attempts = spans()
    assert [parent_of(span) for span in attempts] == [old.context.span_id, new.context.span_id]
    assert old.context.trace_id != new.context.trace_id


def test_a_message_of_an_exchange_is_one_publish(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    shared_store(ALIAS).exchanges.bind(exchange="shop", exchange_type="fanout", pattern="", queue="orders")
    with provider.get_tracer("shop").start_as_current_span("checkout"):
        publish(exchange="shop", body=1)

    attempt(lambda message: None)

    published, _, process = spans()
    assert published.name == "publish shop"
    assert parent_of(process) == published.context.span_id


def test_a_context_of_the_callers_own_is_kept(provider: TracerProvider) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with provider.get_tracer("shop").start_as_current_span("checkout"):
        publish("orders", 1, headers={"traceparent": own})

    assert Message.objects.using(ALIAS).get().headers["traceparent"] == own


def test_a_batch_carries_it_too(provider: TracerProvider) -> None:
    with provider.get_tracer("shop").start_as_current_span("checkout"), transaction.atomic(using=ALIAS):
        publish_many([("orders", 1), ("orders", 2)])

    headers = Message.objects.using(ALIAS).values_list("headers", flat=True)
    traces = [found["traceparent"].split("-")[1] for found in headers]
    assert len(traces) == 2
    assert len(set(traces)) == 1


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


def traced(trace_id: int) -> str:
    return f'{{"traceparent":"00-{trace_id:032x}-{trace_id:016x}-01"}}'


@pytest.mark.parametrize("fails", [False, True])
def test_coroutines_that_run_at_once_have_each_the_span_of_its_message(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]], fails: bool
) -> None:
    all_run = asyncio.Event()
    seen: list[int] = []

    async def handle(message: Any) -> None:
        seen.append(message.body)
        if len(seen) == 5:
            all_run.set()
        await all_run.wait()
        assert trace.get_current_span().get_span_context().trace_id == message.body
        if fails:
            raise ValueError("no")

    async def run(number: int) -> None:
        claimed = a_claimed(headers=traced(number), body=b"%d" % number)
        await Delivery(claimed, a_handler(handle, way=Way.EVENT_LOOP), a_policy(max_attempts=1)).arun()

    async def main() -> None:
        await asyncio.gather(*map(run, range(1, 6)))

    asyncio.run(main())

    found = spans()
    assert sorted(span.context.trace_id for span in found) == [1, 2, 3, 4, 5]
    outcome = "dead" if fails else "accepted"
    assert {span.attributes["django_mq.outcome"] for span in found if span.attributes} == {outcome}


def test_a_call_of_a_handler_of_many_is_one_span_with_a_link_to_each_publisher(
    provider: TracerProvider, spans: Callable[[], list[ReadableSpan]]
) -> None:
    handler = replace(a_handler(lambda messages: None), bulk=10)
    rows = [traced(1), "{}", traced(2)]
    BulkCall([Delivery(a_claimed(headers=row), handler, a_policy()) for row in rows]).run()

    (span,) = spans()
    assert [link.context.trace_id for link in span.links] == [1, 2]
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 3
