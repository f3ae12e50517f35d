"""A copy of a message: what of it is published again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db.models import TextField
from django.db.models.functions import Cast

from django_mq.delivery.codecs import decode_body, decode_headers
from django_mq.delivery.publisher import OutgoingMessage
from django_mq.diagnosis.messages.task_ids import without_task_id
from django_mq.errors import InvalidMessage
from django_mq.models import Message

if TYPE_CHECKING:
    from uuid import UUID

#: Headers that say where a message has been. A copy is a new message.
TRACES = ("x-origin-queue", "x-origin-attempts", "x-dead-reason", "x-dead-at")
#: Headers of the publisher's trace. A copy, perhaps days later, is no part of it.
TRACE_CONTEXT = ("traceparent", "tracestate", "baggage", "sentry-trace")
#: Header of a body that Kombu has compressed.
COMPRESSION = "compression"


def without_traces(headers: dict[str, Any]) -> dict[str, Any]:
    """Return the headers of a copy, without the id of a Celery task."""
    left = {*TRACES, *TRACE_CONTEXT}
    return without_task_id({name: value for name, value in headers.items() if name.lower() not in left})


def copy_of(message_id: UUID, *, using: str) -> OutgoingMessage:
    """Return an outgoing message with the body, headers, type and priority of a message, but no queue.

    The body is copied byte by byte: it may be compressed. Raises InvalidMessage if there is no such message, and
    CorruptMessage.
    """
    rows = Message.objects.using(using).filter(message_id=message_id).order_by("-pk")
    stored = Cast("headers", TextField())  # as text: invalid JSON must not break the query
    found = rows.values_list("body", "content_type", "content_encoding", "type", "priority", stored).first()
    if found is None:
        raise InvalidMessage(f"There is no message {message_id} to copy; a finished one is in the history only.")
    body, content_type, encoding, type_, priority, headers = found
    data = bytes(body)
    return OutgoingMessage(
        # A message is published in UTF-8 or as bytes.
        body=data if encoding in {"utf-8", "binary"} else decode_body(data, content_type, encoding),
        content_type=content_type or None,
        headers=without_traces(decode_headers(headers)),
        type=type_,
        priority=priority,
    )


def with_body(outgoing: OutgoingMessage, body: Any, content_type: str) -> OutgoingMessage:
    """Return the copy with another, uncompressed body."""
    headers = {name: value for name, value in (outgoing.headers or {}).items() if name != COMPRESSION}
    return replace(outgoing, body=body, content_type=content_type, headers=headers)
