"""Make message ids, write bodies and headers as bytes and text, and read them again as your code gets them.

Bodies are JSON, text or plain bytes; reading them runs no code. JSON is that of Django's encoder, with the
microseconds of times: dates, times, UUIDs, lazy strings and Decimals become texts. A Decimal or a timedelta is
refused as a header: as a text it would have no order, and no selector would match it as a number. It is not stored
as a number either, because JSON's numbers are read as floats, which lose the last digits of an amount of money.

Ids are UUIDs of version 7 (RFC 9562), so that the index on them grows at one end.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import time
from dataclasses import replace
from decimal import Decimal
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from json import encoder
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from uuid import UUID, SafeUUID

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.functional import Promise, cached_property  # that of functools takes a lock in Python 3.11

from django_mq import conf
from django_mq.delivery.validation import oversize
from django_mq.engine.decisions.interruption import ERRORS, EndRequest
from django_mq.engine.decisions.retries import releases_in
from django_mq.engine.states import State
from django_mq.errors import (
    BodyNotSerialisable,
    CorruptMessage,
    LostKey,
    NotDurable,
    ResultNotSerialisable,
    ResultTooLarge,
    shown,
)
from django_mq.seams.middleware import named
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.decisions.interruption import Interruption
    from django_mq.stores.records import Browsed, Claimed, Write


#: The fixed bits of an id, and a mask for the others.
VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
FREE_BITS = (2**128 - 1) & ~(0xF << 76 | 0x3 << 62)


# Plain names: looking a member up on its class takes longer than all the rest of a new id.
UNKNOWN: Final = SafeUUID.unknown
_make, _set = object.__new__, object.__setattr__


#: The header that says for how many seconds the result of a message is kept.
KEEP_RESULT: Final = "mq_keep_result_seconds"
#: The property with the id of a message of Celery or Kombu.
MESSAGE_ID: Final = "mq_message_id"
#: Property of a message that Kombu published without a priority: its task sees 0, as with other transports.
UNSAID: Final = "mq_unsaid"
#: Tables that put the version, and the variant, into a random byte.
VERSIONED = bytes(byte & 0x0F | 0x70 for byte in range(256))
VARIED = bytes(byte & 0x3F | 0x80 for byte in range(256))


def new_message_ids(count: int) -> list[bytes]:
    """Return so many new ids, 16 bytes each."""
    milliseconds = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    dice = os.urandom(10 * count)
    ids = bytearray(16 * count)
    for place, byte in enumerate(milliseconds):
        ids[place::16] = bytes([byte]) * count
    for place in range(10):
        ids[6 + place :: 16] = dice[place * count : (place + 1) * count]
    ids[6::16] = ids[6::16].translate(VERSIONED)
    ids[8::16] = ids[8::16].translate(VARIED)
    found = bytes(ids)
    return [found[start : start + 16] for start in range(0, len(found), 16)]


def new_message_id() -> UUID:
    """Return a new id: 48 bits of milliseconds since 1970, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    return from_value(value & FREE_BITS | VERSION_AND_VARIANT)


def new_uuids(count: int) -> Iterator[UUID]:
    """Yield so many new ids, made together when the first is needed."""
    yield from map(from_value, map(int.from_bytes, new_message_ids(count)))


def from_value(value: int) -> UUID:
    """Return ``UUID(int=value)`` without its checks, which take as long as all the rest."""
    made = _make(UUID)
    # UUID.__setattr__ raises: a UUID does not change.
    _set(made, "int", value)
    _set(made, "is_safe", UNKNOWN)
    return made


JSON = "application/json"
BINARY = "application/octet-stream"
TEXT = "text/plain"
#: Larger floats are whole numbers.
LARGEST_FRACTION = 2.0**53
#: The codecs by which a body may be read. Some others of Python's take quadratic time.
CODECS = {"utf_8", "utf_16", "utf_32", "ascii", "latin_1"}


#: What Django's encoder knows.
KNOWN = (dt.date, dt.time, dt.timedelta, Decimal, UUID, Promise)


class JSONEncoder(DjangoJSONEncoder):
    """Django's encoder, which cuts times to milliseconds, with their microseconds."""

    def default(self, o: Any) -> Any:
        if isinstance(o, dt.datetime):
            text = o.isoformat()
            return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
        if isinstance(o, dt.time) and o.tzinfo is None:
            return o.isoformat()
        return super().default(o)


class BodyEncoder(JSONEncoder):
    """The same for bodies, with the values that extensions know."""

    def default(self, o: Any) -> Any:
        if not isinstance(o, KNOWN):
            for encode in conf.extensions().encoders:
                if (found := encode(o)) is not NotImplemented:
                    return found
        return super().default(o)


class HeaderEncoder(JSONEncoder):
    """The same for headers, which are compared by selectors and sort keys."""

    def default(self, o: Any) -> Any:
        if isinstance(o, Decimal | dt.timedelta):
            raise TypeError(f"{shown(o)} is no text and no number of JSON. {INSTEAD[isinstance(o, Decimal)]}")
        return super().default(o)


#: What to give instead of a timedelta, or a Decimal.
INSTEAD = (
    "Give its total_seconds().",
    "Give it as a float, which selectors compare as a number, or as a str, which keeps all digits.",
)


def _encoder(kind: type[JSONEncoder]) -> Callable[[Any], str]:
    """Return a function that writes compact JSON. A circle ends with a RecursionError.

    The standard library's ``encode`` makes its C encoder anew for each value, which takes as long as a small body.
    """
    ours = kind(separators=(",", ":"), allow_nan=False)
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:  # another Python
        return ours.encode
    pieces = make(None, ours.default, encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_encode, _encode_body, _encode_headers = map(_encoder, (JSONEncoder, BodyEncoder, HeaderEncoder))


def encode_body(body: Any, content_type: str | None = None) -> tuple[bytes, str]:
    """Return the body as bytes with its content type.

    Bytes stay as they are; everything else becomes JSON, as Django's encoder and those of extensions write it.
    Raises BodyNotSerialisable.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), content_type or BINARY
    if content_type == TEXT and isinstance(body, str):
        return _encode_text(body), TEXT
    if content_type not in (None, JSON):
        raise BodyNotSerialisable(f"A body of content type {content_type!r} must be given as bytes.")
    return encode_json(body, "body", _encode_body).encode(), JSON


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BodyNotSerialisable(f"The body contains half a surrogate pair, which is no text: {error}") from None


def encode_headers(headers: dict[Any, Any]) -> str:
    """Return headers as compact JSON. Raises BodyNotSerialisable.

    A large float is written as the whole number that it is. As 1e+23, PostgreSQL would make another number of it.
    """
    whole = {
        name: int(value)
        for name, value in headers.items()
        if type(value) is float and isfinite(value) and abs(value) > LARGEST_FRACTION
    }
    return encode_json(headers | whole if whole else headers, "headers", _encode_headers)


def encode_json(value: Any, what: str, encode: Callable[[Any], str] = _encode) -> str:
    """Return compact JSON. Raises BodyNotSerialisable naming ``what``."""
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BodyNotSerialisable(f"The {what} cannot be written as JSON: {error}") from error


def encode_result(value: Any) -> str:
    """Return what a handler has returned as JSON, as a body is written.

    Raises ResultNotSerialisable or ResultTooLarge.
    """
    try:
        text = encode_json(value, "result of the handler", _encode_body)
    except BodyNotSerialisable as error:
        raise ResultNotSerialisable(
            f"{error}. The handler has run; return numbers, texts, lists and dictionaries."
        ) from error
    if problem := oversize(text, "The result of the handler"):
        raise ResultTooLarge(
            f"{problem} The handler has run; store the result elsewhere and return a reference, or raise the"
            " setting."
        )
    return text


@lru_cache(maxsize=64)
def codec_of(content_encoding: str) -> str | None:
    """Return the codec that reads a body of this encoding; None if none may."""
    if content_encoding == "binary":
        return "utf_8"
    name = normalize_encoding(content_encoding).lower()
    codec = aliases.get(name, name)
    return codec if codec in CODECS else None


#: The content encoding of an encrypted body.
ENCRYPTED = "encrypted"
#: How its bytes begin, and what is around the id of the key. They say so themselves, because the history and the
#: archive have no content encodings.
MARK, _END = b"\x00encrypted\x00", b"\x00"


def marked_with_key(key_id: str, encrypted: bytes) -> bytes:
    """Return the bytes of a body that is encrypted with this key."""
    return MARK + key_id.encode() + _END + encrypted


def key_of(body: bytes) -> str | None:
    """Return the id of the key with which a body is encrypted, of which the first bytes are enough; else None."""
    if bytes(body[: len(MARK)]) != MARK:
        return None
    return bytes(body[len(MARK) :]).partition(_END)[0].decode("utf-8", "backslashreplace")


def without_key(body: bytes) -> bytes:
    """Return what ``marked_with_key`` was given."""
    return bytes(body[len(MARK) :]).partition(_END)[2]


def changed_text(text: str) -> tuple[str, str]:
    """Return a text as middleware changes bodies, in base64, and its content encoding: see ``as_published``."""
    body, content_encoding = text.encode(), "utf-8"
    for encode in conf.middleware().encoders:
        body, content_encoding = encode(body, content_encoding)
    return base64.b64encode(body).decode(), content_encoding


def as_published(body: bytes, content_encoding: str) -> tuple[bytes, str]:
    """Return the bytes and the content encoding that a body had before middleware changed them.

    They stay as they are if no middleware has changed them. Raises CorruptMessage.
    """
    decoders = conf.middleware().decoders
    for decode in decoders * len(decoders):  # in any order: that of the settings may have changed
        if codec_of(content_encoding) is not None:
            break
        try:
            found = decode(bytes(body), content_encoding)
        except CorruptMessage:
            raise
        except Exception as error:
            raise CorruptMessage(
                f"{named(decode)} cannot decode a body of content encoding {content_encoding!r}: {error!r}"
            ) from error
        body, content_encoding = found or (body, content_encoding)
    if content_encoding == ENCRYPTED:
        raise LostKey(key_of(body) or "")
    return body, content_encoding


def decode_body(body: bytes, content_type: str, content_encoding: str = "utf-8") -> Any:
    """Return JSON decoded, text as str, and anything else as bytes. Raises CorruptMessage."""
    codec = codec_of(content_encoding)
    if codec is None:
        body, content_encoding = as_published(body, content_encoding)
        codec = codec_of(content_encoding)
    if content_type not in (JSON, TEXT):
        return bytes(body)
    if codec is None:
        raise CorruptMessage(f"The body is not valid {content_type}: {content_encoding!r} is not read; use utf-8.")
    try:
        text = bytes(body).decode(codec)
        return json.loads(text) if content_type == JSON else text
    except (ValueError, RecursionError) as error:
        raise CorruptMessage(f"The body is not valid {content_type}: {error}") from error


def decode_headers(text: str | None) -> dict[str, Any]:
    """Return the headers of a row. Raises CorruptMessage unless they are a JSON object."""
    if not text or text == "{}":
        return {}
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptMessage(f"The headers are not valid JSON: {error}") from error
    if not isinstance(headers, dict):
        raise CorruptMessage(f"The headers are a JSON {type(headers).__name__}, not an object.")
    return headers


def stored_properties(text: str | None) -> dict[str, Any]:
    """Return the properties of a row. Raises CorruptMessage unless they are a JSON object, or null."""
    try:
        properties = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise CorruptMessage(f"The properties are not valid JSON: {error}") from error
    properties = {} if properties is None else properties
    if not isinstance(properties, dict):
        raise CorruptMessage(f"The properties are a JSON {type(properties).__name__}, not an object.")
    return properties


# The messages that your code gets: decoded, and without the claim token that a worker needs to settle.


class DecodedMessage:
    """A stored message. Reading a body or headers that cannot be decoded raises CorruptMessage."""

    def __init__(self, stored: Claimed | Browsed) -> None:
        self._stored = stored
        self.id: UUID = stored.message_id
        self.queue: str = stored.queue_name
        #: 0 to 9, 9 first.
        self.priority: int = stored.priority
        self.type: str = stored.type
        self.correlation_id: str | None = stored.correlation_id
        self.published_at: dt.datetime = stored.published_at
        self.content_type: str = stored.content_type

    @cached_property
    def body(self) -> Any:
        """The body that was published: decoded JSON or text, or bytes."""
        return decode_body(self._stored.body, self._stored.content_type, self._stored.content_encoding)

    @cached_property
    def headers(self) -> dict[str, Any]:
        """The headers that were published."""
        return decode_headers(self._stored.headers)


class OwnDelivery(Protocol):
    """What a message knows of its delivery."""

    #: What is written before the settlement, with those of other messages.
    first: Write | None

    @property
    def is_settled_later(self) -> bool:
        """Whether the settlement is written after the call, by the worker."""

    def outcome(self, error: BaseException | None) -> str:
        """Name what becomes of the message if the call ends with this error; None if the handler returns."""


#: What only messages of durable handlers have.
OF_DURABLE: Final = frozenset(
    {"step", "sleep", "wait_for", "patched", "step_key", "astep", "asleep", "await_for", "apatched"}
)


MessageCopy = TypeVar("MessageCopy", bound="ReceivedMessage")


class ReceivedMessage(DecodedMessage):
    """One delivery of a message to a handler. A message that cannot be decoded becomes a dead letter."""

    #: On the class: a plain message has none.
    _end_request: EndRequest | None = None
    #: The delivery, where the handler asks for it: all copies of the message share it.
    delivery: OwnDelivery | None = None
    #: The alias of the database that a worker has it from; None for a message that was made otherwise.
    using: str | None = None

    def __init__(self, claimed: Claimed) -> None:
        super().__init__(claimed)
        #: 1 for the first attempt. A delivery that was given back before the handler began is not counted.
        self.attempt: int = claimed.attempts + 1
        #: Whether the message was delivered before.
        self.redelivered: bool = claimed.redelivered
        self.group_key: str | None = claimed.group_key
        self._claimed = claimed

    @cached_property
    def releases(self) -> int:
        """How often the message was given back for a while without an attempt, as by ``Release(60)``."""
        return releases_in(headers_in(self._claimed.properties or "{}"))

    def changed(self, **stored: Any) -> ReceivedMessage:
        """Return the message as a middleware gives it on: with another ``body`` in bytes, ``content_type``, ..."""
        return self.share(ReceivedMessage(replace(self._claimed, **stored)))

    def share(self, copy: MessageCopy) -> MessageCopy:
        """Return a copy of the message, now with what all copies share."""
        copy.end_request, copy.delivery, copy.using = self.end_request, self.delivery, self.using
        return copy

    @property
    def end_request(self) -> EndRequest:
        """Whether the handler was asked to end, which all copies of the message share."""
        # One call, which no other thread can come between.
        return self._end_request or self.__dict__.setdefault("_end_request", EndRequest())

    @end_request.setter
    def end_request(self, request: EndRequest) -> None:
        self._end_request = request

    @property
    def deadline(self) -> dt.datetime | None:
        """When the handler has to end, by its soft time limit or else its time limit; None if it has neither."""
        return None if self._end_request is None else self._end_request.deadline

    @property
    def cancelled(self) -> bool:
        """Whether the handler is asked to end: by a cancel, a time limit, or a worker that ends."""
        return self.interruption is not None

    @property
    def interruption(self) -> Interruption | None:
        """Why the handler is asked to end; None if it is not."""
        return None if self._end_request is None else self._end_request.at(time.monotonic())

    def raise_if_cancelled(self) -> None:
        """Return if the handler may go on. Raises Cancelled, SoftTimeLimitExceeded and WorkerStopping."""
        if (reason := self.interruption) is not None:
            raise ERRORS[reason]

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far the handler is, as a part of 1, and in words, for the admin and ``progress_of``.

        It returns at once, in sync and async code: what was said last is written soon, at most twice a second,
        outside of any transaction of the handler. A database that is away does not make the message fail. Raises
        InvalidProgress for a fraction that is not 0 to 1, or a text that is too long; and AttemptEnded.
        """
        for take in conf.extensions().progress:
            take(self, fraction, text)

    def limit(self, seconds: float | None, soft_seconds: float | None) -> None:
        """Begin the time limits of the handler; the worker calls this."""
        within = seconds if soft_seconds is None else soft_seconds
        if within is not None:
            self.end_request.deadline = clock.now() + dt.timedelta(seconds=within)
        if soft_seconds is not None:
            self.end_request.soft_at = time.monotonic() + soft_seconds

    def __repr__(self) -> str:
        return f"<message {self.id} of {self.queue}, attempt {self.attempt}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in OF_DURABLE:
                raise NotDurable(f"This message has no {name}: declare its handler with durable=True.")
            raise AttributeError(f"A message has no {name!r}.", name=name, obj=self)


class BrowsedMessage(DecodedMessage):
    """A message as ``browse`` returns it."""

    def __init__(self, browsed: Browsed) -> None:
        super().__init__(browsed)
        self.state = State(browsed.state)
        #: How many attempts have failed.
        self.attempts: int = browsed.attempts
        self.deliver_at: dt.datetime | None = browsed.deliver_at
        self.expires_at: dt.datetime | None = browsed.expires_at
        #: Why it is a dead letter; blank for other messages.
        self.dead_reason: str = browsed.dead_reason

    def __repr__(self) -> str:
        return f"<message {self.id} of {self.queue}, {self.state.name.lower()}>"
