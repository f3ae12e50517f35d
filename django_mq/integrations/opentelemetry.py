"""One trace from the publisher to the handler. Needs ``pip install django-mq[opentelemetry]``.

    django_mq.integrations.opentelemetry.instrument()   # once per process, in AppConfig.ready()

Within a trace, a publish is a span of kind PRODUCER, and the message carries its context in its headers
(W3C: ``traceparent``, ``tracestate``, and baggage, as the configured propagator writes them). Each
attempt is a span of kind CONSUMER under it, in any process and at any time. Names and
attributes are those of OpenTelemetry's semantic conventions for messaging.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from django_mq import __version__, signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, TracerProvider

SYSTEM = "django_mq"
#: Methods of ``Tracing`` to the signals that they receive.
RECEIVED = {
    "inject": signals.message_publishing,
    "start": signals.attempt_started,
    "finish": signals.attempt_finished,
}


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Trace from now on, with the given provider or the global one. A second call changes nothing."""
    tracing = Tracing(tracer_provider)
    for name, signal in RECEIVED.items():
        # Strong, because nothing else keeps the object.
        signal.connect(getattr(tracing, name), weak=False, dispatch_uid=f"django_mq.opentelemetry.{name}")


def uninstrument() -> None:
    """Stop tracing."""
    for name, signal in RECEIVED.items():
        signal.disconnect(dispatch_uid=f"django_mq.opentelemetry.{name}")


class Tracing:
    """The receivers of the signals. Open spans are kept by message, so that threads do not share them."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("django_mq", __version__, tracer_provider)
        self._open: dict[int, tuple[Span, Any]] = {}

    def inject(self, *, headers: dict[str, Any], queue: str, exchange: str | None, **_: Any) -> None:
        """Write the context of a span of the publish into the headers, unless the caller has written one.

        Outside a trace there is no span: a load of a million messages must not become a million traces.
        """
        if _span_context(propagate.extract(_texts(headers))).is_valid:
            return
        carrier: dict[str, str] = {}
        if trace.get_current_span().get_span_context().is_valid:
            attributes = _operation("publish", "create", exchange or queue)
            name = f"publish {exchange or queue}"
            with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes):
                propagate.inject(carrier)
        else:
            propagate.inject(carrier)
        for name, value in carrier.items():
            headers.setdefault(name, value)

    def start(self, *, message: Any, **_: Any) -> None:
        """Open a span under the publisher's, linked to it, and make it the current span of this thread."""
        published = propagate.extract(_texts(_headers_of(message)))
        parent, publisher = _under_current(published), _span_context(published)
        span = self._tracer.start_span(
            f"process {message.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_attributes(message),
            links=[Link(publisher)] if publisher.is_valid else [],
        )
        self._open[id(message)] = span, context.attach(trace.set_span_in_context(span, parent))

    def finish(self, *, message: Any, outcome: str, error: BaseException | None, **_: Any) -> None:
        """Close the span, with the outcome of the attempt."""
        span, token = self._open.pop(id(message), (None, None))
        if span is None or token is None:
            return
        context.detach(token)
        span.set_attribute("django_mq.outcome", outcome)
        if error is not None and outcome in {"retried", "dead"}:
            span.record_exception(error)
            span.set_attribute("error.type", _name_of(type(error)))
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        span.end()


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
