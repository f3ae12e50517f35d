"""A copy of a message: what of it is published again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db.models import TextField
from django.db.models.functions import Cast

from django_mq.delivery.codecs import decode_body, decode_headers
from django_mq.delivery.consumer.handlers import RETRIES, is_task
from django_mq.delivery.publisher import OutgoingMessage
from django_mq.diagnosis.messages import masking
from django_mq.diagnosis.messages.task_ids import with_task_id, without_task_id
from django_mq.engine.decisions.dead_letters import (
    DEAD_AT,
    DEAD_REASON,
    DEATHS,
    FIRST_DEATH,
    ORIGIN_ATTEMPTS,
    ORIGIN_QUEUE,
)
from django_mq.errors import InvalidMessage
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

#: Headers that say where a message has been. A copy is a new message.
TRACES = frozenset({ORIGIN_QUEUE, ORIGIN_ATTEMPTS, DEAD_REASON, DEAD_AT, DEATHS})
#: Headers of the publisher's trace. A copy, perhaps days later, is no part of it.
TRACE_CONTEXT = ("traceparent", "tracestate", "baggage", "sentry-trace")
#: Headers in which Celery shows a task's arguments, and the most characters of each.
ARGUMENTS, LONGEST_ARGUMENTS = ("argsrepr", "kwargsrepr"), 1024
#: Header of a body that Kombu has compressed.
COMPRESSION = "compression"


def without_traces(headers: dict[str, Any]) -> dict[str, Any]:
    """Return the headers of a copy, without the id of a Celery task."""
    left = {*TRACES, *TRACE_CONTEXT}
    kept = without_task_id(
        {
            name: value
            for name, value in headers.items()
            if name.lower() not in left and not name.startswith(FIRST_DEATH)
        }
    )
    return kept | {RETRIES: 0} if is_task(kept) else kept


def with_arguments_shown(outgoing: OutgoingMessage) -> OutgoingMessage:
    """Return the message; the headers of a Celery task show the arguments that are in its body."""
    headers = dict(outgoing.headers or {})
    if not is_task(headers) or not headers.keys() & set(ARGUMENTS):
        return outgoing
    match outgoing.body:
        case [[*args], {**kwargs}, *_]:
            shown = dict(zip(ARGUMENTS, (repr(tuple(args)), repr(kwargs)), strict=True))
        case _:
            shown = dict.fromkeys(ARGUMENTS, "")
    return replace(outgoing, headers=headers | {name: text[:LONGEST_ARGUMENTS] for name, text in shown.items()})


def kept_correlation_id(headers: Mapping[str, Any], correlation_id: str | None) -> str | None:
    """Return the correlation id of a copy: that of a Celery task is the id of the task."""
    return None if is_task(headers) else correlation_id


def copy_of(message_id: UUID, *, using: str) -> OutgoingMessage:
    """Return an outgoing message with the body, headers and properties of a message, but no queue and no times.

    The body is copied byte by byte: it may be compressed. Raises InvalidMessage if there is no such message, and
    CorruptMessage.
    """
    rows = Message.objects.using(using).filter(message_id=message_id).order_by("-pk")
    stored = Cast("headers", TextField())  # as text: invalid JSON must not break the query
    properties = ("type", "priority", "group_key", "correlation_id")
    found = rows.values_list("body", "content_type", "content_encoding", stored, *properties).first()
    if found is None:
        raise InvalidMessage(f"There is no message {message_id} to copy; a finished one is in the history only.")
    body, content_type, encoding, stored_headers, type_, priority, group_key, correlation_id = found
    data, headers = bytes(body), decode_headers(stored_headers)
    return OutgoingMessage(
        # A message is published in UTF-8 or as bytes.
        body=data if encoding in {"utf-8", "binary"} else decode_body(data, content_type, encoding),
        content_type=content_type or None,
        headers=without_traces(headers),
        type=type_,
        priority=priority,
        group_key=group_key,
        correlation_id=kept_correlation_id(headers, correlation_id),
    )


def copy_of_line(line: Mapping[str, Any], template: OutgoingMessage) -> OutgoingMessage:
    """Return the same of a line of ``mq_download``, and the rest of the template. Raises InvalidMessage."""
    headers = line.get("headers", {})
    if not isinstance(headers, dict):
        raise InvalidMessage("Its headers are not an object.")
    if masking.is_masking() and f'"{masking.HIDDEN}"' in json.dumps([headers, line["body"]], default=str):
        raise InvalidMessage("MASK has hidden a part of it, and a copy would lack that part.")
    if (key_id := line.get("encrypted_with")) is not None:
        raise InvalidMessage(f"Its body is encrypted with the key {key_id!r}, and a copy would lack it.")
    properties = ("body", "type", "priority", "group_key", "content_type")
    outgoing = replace(
        template,
        **{name: line[name] for name in properties if name in line},
        headers=without_traces(headers),
        correlation_id=kept_correlation_id(headers, line.get("correlation_id")),
    )
    return with_task_id(with_arguments_shown(outgoing) if isinstance(outgoing.body, list) else outgoing)


def with_body(outgoing: OutgoingMessage, body: Any, content_type: str) -> OutgoingMessage:
    """Return the copy with another, uncompressed body."""
    headers = {name: value for name, value in (outgoing.headers or {}).items() if name != COMPRESSION}
    return with_arguments_shown(replace(outgoing, body=body, content_type=content_type, headers=headers))
