"""OpenTelemetry with its instrumentation for Celery, and ours; the spans go into the diary."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

from django_mq.integrations.opentelemetry import instrument
from tests.journeys.project import diary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan


class DiaryExporter(SpanExporter):
    """Writes each span that ended."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write them."""
        for span in spans:
            diary.write(**line_of(span))
        return SpanExportResult.SUCCESS


def line_of(span: ReadableSpan) -> dict[str, Any]:
    """Return what the tests look at."""
    context = span.get_span_context()
    assert context is not None
    return {
        "span": span.name,
        "id": format_span_id(context.span_id),
        "trace": format_trace_id(context.trace_id),
        "parent": span.parent and format_span_id(span.parent.span_id),
        "status": span.status.status_code.name,
        "exceptions": [(event.attributes or {}).get("exception.type") for event in span.events],
    }


def start() -> None:
    """Begin, as a project does."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(DiaryExporter()))
    trace.set_tracer_provider(provider)
    celery: Any = import_module("opentelemetry.instrumentation.celery")
    celery.CeleryInstrumentor().instrument()
    instrument()
