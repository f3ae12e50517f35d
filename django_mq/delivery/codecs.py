"""Body to bytes and back. JSON or plain bytes; nothing that could run code when read."""

from __future__ import annotations

import json
from encodings import normalize_encoding
from encodings.aliases import aliases
from json import encoder
from typing import TYPE_CHECKING, Any

from django.core.serializers.json import DjangoJSONEncoder

from django_mq.errors import BodyNotSerialisable, CorruptMessage

if TYPE_CHECKING:
    from collections.abc import Callable

JSON = "application/json"
BINARY = "application/octet-stream"
TEXT = "text/plain"
#: The codecs that a body may be read with. Python has others, of which some take quadratic time.
CODECS = {"utf_8", "utf_16", "utf_32", "ascii", "latin_1"}


def _encoder() -> Callable[[Any], str]:
    """Return what writes compact JSON, made once: to make an encoder takes as long as to encode a small body.

    The standard library's ``encode`` makes its encoder in C anew for each value. Where there is
    none (another Python), ``encode`` it is. A circle ends with a RecursionError.
    """
    ours = DjangoJSONEncoder(separators=(",", ":"), allow_nan=False)
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return ours.encode
    pieces = make(None, ours.default, encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_encode = _encoder()


def encode_body(body: Any, content_type: str | None = None) -> tuple[bytes, str]:
    """Return the body as bytes with its content type.

    Bytes stay as they are; everything else becomes JSON, with Django's encoder for dates,
    decimals and UUIDs. Raises BodyNotSerialisable.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), content_type or BINARY
    if content_type == TEXT and isinstance(body, str):
        return _encode_text(body), TEXT
    if content_type not in (None, JSON):
        raise BodyNotSerialisable(f"A body of content type {content_type!r} must be given as bytes.")
    return encode_json(body, "body").encode(), JSON


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BodyNotSerialisable(f"The body contains half a surrogate pair, which is no text: {error}") from None


def encode_json(value: Any, what: str) -> str:
    """Return compact JSON. Raises BodyNotSerialisable naming ``what``."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BodyNotSerialisable(f"The {what} cannot be written as JSON: {error}") from error


def codec_of(content_encoding: str) -> str | None:
    """Return the codec that reads a body of this encoding; None if no body is read with it."""
    if content_encoding == "binary":
        return "utf_8"
    name = normalize_encoding(content_encoding).lower()
    codec = aliases.get(name, name)
    return codec if codec in CODECS else None


def decode_body(body: bytes, content_type: str, content_encoding: str = "utf-8") -> Any:
    """Return what was published: JSON decoded, text as str, anything else as bytes. Raises CorruptMessage."""
    if content_type not in (JSON, TEXT):
        return bytes(body)
    codec = codec_of(content_encoding)
    if codec is None:
        raise CorruptMessage(f"The body is not valid {content_type}: {content_encoding!r} is not read; use utf-8.")
    try:
        text = bytes(body).decode(codec)
        return json.loads(text) if content_type == JSON else text
    except (ValueError, RecursionError) as error:
        raise CorruptMessage(f"The body is not valid {content_type}: {error}") from error


def decode_headers(text: str | None) -> dict[str, Any]:
    """Return the headers of a row. Raises CorruptMessage when they are not a JSON object."""
    if not text or text == "{}":
        return {}
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptMessage(f"The headers are not valid JSON: {error}") from error
    if not isinstance(headers, dict):
        raise CorruptMessage(f"The headers are a JSON {type(headers).__name__}, not an object.")
    return headers
