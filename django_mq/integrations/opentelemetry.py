"""One trace from the publisher to the handler. Needs ``pip install django-mq[opentelemetry]``.

    django_mq.integrations.opentelemetry.instrument()   # once per process, in AppConfig.ready()

Or name ``django_mq.integrations.opentelemetry.Tracing`` in the setting ``MIDDLEWARE``, with the global provider.

Within a trace, a publish is a span of kind PRODUCER, and the message carries its context in its headers
(W3C: ``traceparent``, ``tracestate``, and baggage, as the configured propagator writes them). Each
attempt is a span of kind CONSUMER under it, in any process and at any time. Names and
attributes are those of OpenTelemetry's semantic conventions for messaging.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from django_mq import __version__, conf
from django_mq.delivery.codecs import ReceivedMessage
from django_mq.delivery.publisher import with_headers
from django_mq.seams.extension import Extension
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, TracerProvider

    from django_mq.seams.middleware import Execution, Proceed, Publication
    from django_mq.stores.records import NewMessage

SYSTEM = "django_mq"


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Trace from now on, with the given provider or the global one. A second call changes nothing."""
    tracing = Tracing(tracer_provider)
    extension = Extension(name="opentelemetry", middleware=(tracing,))
    conf.add_extension(extension)


def uninstrument() -> None:
    """Stop tracing."""
    conf.remove_extension("opentelemetry")


class Tracing:
    """The middleware. The messages of Celery tasks are traced by Celery's own instrumentation."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("django_mq", __version__, tracer_provider)

    def publish(self, publication: Publication, proceed: Proceed) -> Any:
        """Write the context of a span of each publish into the headers, unless the caller has written one.

        Outside a trace there is no span: a load of a million messages must not become a million traces.
        """
        carriers: dict[UUID, dict[str, str]] = {}
        messages = [self._traced(each, carriers) for each in publication.messages]
        return proceed(replace(publication, messages=messages))

    def _traced(self, message: NewMessage, carriers: dict[UUID, dict[str, str]]) -> NewMessage:
        if message.properties is not None:
            return message  # Celery's
        headers = headers_in(message.headers)
        if _span_context(propagate.extract(_texts(headers))).is_valid:
            return message
        if message.message_id not in carriers:  # the copies of one message have one span
            carriers[message.message_id] = self._carrier(message.exchange or message.queue_name)
        carrier = carriers[message.message_id]
        return with_headers(message, {**carrier, **headers}) if carrier else message

    def _carrier(self, destination: str) -> dict[str, str]:
        carrier: dict[str, str] = {}
        if trace.get_current_span().get_span_context().is_valid:
            attributes = _operation("publish", "create", destination)
            name = f"publish {destination}"
            with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes):
                propagate.inject(carrier)
        else:
            propagate.inject(carrier)
        return carrier

    def process(self, attempt: Execution, proceed: Proceed) -> Any:
        """Open a span under the publisher's, linked to it, which is the current span while the handler runs."""
        with self._span_around(attempt):
            return proceed()

    async def aprocess(self, attempt: Execution, proceed: Proceed) -> Any:
        """Do the same for a coroutine function."""
        with self._span_around(attempt):
            return await proceed()

    @contextmanager
    def _span_around(self, attempt: Execution) -> Iterator[None]:
        message = attempt.message
        if not isinstance(message, ReceivedMessage):
            yield
            return
        published = propagate.extract(_texts(_headers_of(message)))
        parent = _under_current(published)
        span = self._tracer.start_span(
            f"process {message.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_attributes(message) | _batch(attempt.messages),
            links=_links(attempt.messages or [message]),
        )
        token = context.attach(trace.set_span_in_context(span, parent))
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            context.detach(token)
            outcome = attempt.outcome(error)
            span.set_attribute("django_mq.outcome", outcome)
            if error is not None and outcome in {"retried", "dead"}:
                span.record_exception(error)
                span.set_attribute("error.type", _name_of(type(error)))
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            span.end()


def _links(messages: Sequence[Any]) -> list[Link]:
    """Return a link to the publisher of each message that has one."""
    found = (_span_context(propagate.extract(_texts(_headers_of(each)))) for each in messages)
    return [Link(publisher) for publisher in found if publisher.is_valid]


def _batch(messages: Sequence[Any]) -> dict[str, str | int]:
    """Return what the span of a call of a handler of many says of it."""
    return {"messaging.batch.message_count": len(messages)} if messages else {}


def _under_current(published: Context) -> Context:
    """Return the current context if it continues the publisher's trace or the publisher had none.

    In a Celery worker it is the span that Celery's own instrumentation has opened for the handler's run.
    """
    publisher = _span_context(published)
    current = trace.get_current_span().get_span_context()
    continues = current.is_valid and publisher.trace_id in {current.trace_id, trace.INVALID_TRACE_ID}
    return context.get_current() if continues else published


def _headers_of(message: Any) -> Mapping[str, Any]:
    try:
        headers: Mapping[str, Any] = message.headers
    except Exception:  # noqa: BLE001 - the attempt reports headers that cannot be read
        return {}
    return headers


def _texts(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that are texts: a propagator may not expect others."""
    pairs = headers.items()
    return {name.lower(): value for name, value in pairs if isinstance(name, str) and isinstance(value, str)}


def _span_context(of: Context) -> SpanContext:
    # Of this context, even if it is empty, and not of the current one.
    return trace.get_current_span(of).get_span_context()


def _name_of(error: type[BaseException]) -> str:
    return error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"


def _operation(name: str, kind: str, destination: str) -> dict[str, str | int]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": destination,
    }


def _attributes(message: Any) -> dict[str, str | int]:
    attributes = {
        **_operation("process", "process", message.queue),
        "messaging.message.id": str(message.id),
        "django_mq.attempt": message.attempt,
        "django_mq.priority": message.priority,
        "django_mq.redelivered": message.redelivered,
    }
    if message.correlation_id:
        attributes["messaging.message.conversation_id"] = message.correlation_id
    return attributes
