"""Inputs, items and results as rows have them: JSON, which middleware may change as it does bodies."""

from __future__ import annotations

import base64
from typing import Any, Final

from django_mq import conf
from django_mq.delivery.codecs import as_published, changed_text, decode_body, encode_body
from django_mq.delivery.validation import check_size
from django_mq.errors import BodyNotSerialisable

#: How a value begins that middleware has changed; no JSON begins so.
CHANGED: Final = "~"


def written(value: Any) -> str:
    """Return a value as a row has it. Raises BodyNotSerialisable and BodyTooLarge."""
    body, content_type = encode_body(value)
    if content_type != "application/json":
        raise BodyNotSerialisable("Bytes are no JSON; a workflow takes and keeps JSON.")
    check_size(body)
    return written_json(body.decode())


def written_json(text: str | None) -> str:
    """Return JSON as a row has it; None is JSON's null."""
    if text is None:
        return "null"
    if not conf.middleware().encoders:
        return text
    changed, content_encoding = changed_text(text)
    return f"{CHANGED}{content_encoding}:{changed}"


def value_in(text: str | None) -> Any:
    """Return the value that was written so; None for no value. Raises CorruptMessage."""
    if text is None:
        return None
    if not text.startswith(CHANGED):
        return decode_body(text.encode(), "application/json", "utf-8")
    content_encoding, _, encoded = text[1:].partition(":")
    return decode_body(*_restored(base64.b64decode(encoded), content_encoding))


def _restored(body: bytes, content_encoding: str) -> tuple[bytes, str, str]:
    found, encoding = as_published(body, content_encoding)
    return found, "application/json", encoding
