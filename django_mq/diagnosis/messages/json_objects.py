"""A message as a JSON object, masked. Any bytes can be a message."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from django_mq.delivery.codecs import ENCRYPTED, decode_body, decode_headers, key_of
from django_mq.diagnosis.messages import masking
from django_mq.engine.states import State
from django_mq.errors import CorruptMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.records import Browsed


def as_object(message: Browsed) -> dict[str, Any]:
    """Return a message as an object. A body that is neither JSON nor text is under ``body_base64``."""
    due = message.deliver_at
    return {
        "message_id": str(message.message_id),
        "row": message.id,
        "queue": message.queue_name,
        "state": State(message.state).name.lower(),
        "priority": message.priority,
        "attempts": message.attempts,
        "published_at": message.published_at.isoformat(),
        "deliver_at": None if due is None else due.isoformat(),
        "type": message.type,
        "correlation_id": message.correlation_id,
        "group_key": message.group_key,
        "content_type": message.content_type,
        "dead_reason": message.dead_reason,
        "headers": _headers(message),
        **seen_body(message),
    }


def as_stored(message: Browsed) -> dict[str, Any]:
    """Return the same with headers and body as they are stored; all of them masked if anything is."""
    found = as_object(message)
    found.pop("body", None)
    if masking.is_masking():
        return found | {"headers": masking.HIDDEN, "body": masking.HIDDEN}
    return found | {"headers": message.headers, **_in_base64(message.body)}


def written(message: Browsed, write: Callable[[dict[str, Any]], str]) -> str:
    """Return the object as ``write`` writes it, or as stored if its JSON is too deep or has no valid number."""
    try:
        return write(as_object(message))
    except (ValueError, RecursionError):
        return write(as_stored(message))


def as_json(message: Browsed) -> str:
    """Return the object as a line of strict JSON."""
    return written(message, lambda found: json.dumps(found, allow_nan=False))


def seen_body(message: Browsed) -> dict[str, Any]:
    """Return the body under ``body``, or under ``body_base64`` if it is bytes or does not match its type.

    For an encrypted body, ``encrypted_with`` has the id of its key.
    """
    if message.content_encoding == ENCRYPTED:
        return {"body": ENCRYPTED, "encrypted_with": key_of(message.body)}
    try:
        body = decode_body(message.body, message.content_type, message.content_encoding)
    except CorruptMessage:
        body = message.body
    body = masking.masked(body, message.queue_name)
    return _in_base64(body) if isinstance(body, bytes) else {"body": body}


def _headers(message: Browsed) -> Any:
    try:
        headers: Any = decode_headers(message.headers)
    except CorruptMessage:
        headers = masking.HIDDEN if masking.is_masking() else message.headers
    return masking.masked_headers(headers, message.queue_name)


def _in_base64(body: bytes) -> dict[str, Any]:
    return {"body_base64": base64.b64encode(body).decode()}
