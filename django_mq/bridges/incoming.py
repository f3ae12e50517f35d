"""Read a message of another broker: make one of ours of it, or say why that cannot be."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from django_mq.delivery import publisher
from django_mq.delivery.codecs import JSON, codec_of, decode_body, encode_headers, encode_json
from django_mq.engine.decisions.receivers import (
    digest_of,
    duplicate_id_of,
    message_id_of,
    priority_of,
    sent_headers,
    ttl_seconds_of,
)
from django_mq.errors import CorruptMessage, InvalidMessage, MQError
from django_mq.stores.records import NewMessage, storable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from django_mq.engine.decisions.receivers import Receiver

#: The headers that may have the group of a message: that of bridges, and that of JMS.
GROUPS: Final = ("x-group-key", "JMSXGroupID")
#: Properties of AMQP that have columns of their own here, or say nothing after the receipt.
OWN_COLUMNS: Final = frozenset(
    {
        *("content_type", "content_encoding", "application_headers", "headers", "priority", "correlation_id"),
        *("message_id", "type", "delivery_info", "delivery_tag", "body_encoding"),
    }
)
#: The most bytes of the headers of a dead letter.
MOST_HEADERS: Final = 64 * 1024


class UnreadableError(MQError):
    """A message of another broker cannot be a message here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message as it has come, before it is acknowledged."""

    body: bytes
    tag: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Any]
    properties: Mapping[str, Any]
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False
    #: Why the driver could not read it; blank if it could.
    fault: str = ""

    @classmethod
    def of(cls, message: Any, error: BaseException | None = None) -> Incoming:
        """Return the arrival of a message of Kombu."""
        info, body = message.delivery_info or {}, message.body
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        return cls(
            body=bytes(body or b""),
            tag=message.delivery_tag,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=message.headers,
            properties=message.properties,
            exchange=info.get("exchange") or "",
            routing_key=info.get("routing_key") or "",
            redelivered=bool(info.get("redelivered")),
            fault="" if error is None else f"It cannot be decompressed: {error}",
        )

    def digest(self) -> str:
        """Return the hash of what was sent: body, content type, routing key and headers."""
        headers = encode_json(_plain(sent_headers(self.headers)), "headers")
        said = json.dumps(json.loads(headers), sort_keys=True).encode()
        return digest_of([self.body, (self.content_type or "").encode(), self.routing_key.encode(), said])

    def duplicate_id(self, receiver: Receiver) -> str | None:
        """Return the id by which it is received once; None if it has none."""
        hashes = receiver.without_id == "hash"
        return duplicate_id_of(
            receiver, self.properties.get("message_id"), self.headers, self.digest() if hashes else ""
        )


def read(arrival: Incoming, receiver: Receiver) -> NewMessage:
    """Return the message that is written for it. Raises UnreadableError, which says what is wrong."""
    if arrival.fault:
        raise UnreadableError(arrival.fault)
    duplicate_id = arrival.duplicate_id(receiver)
    if duplicate_id is None:
        where = f"header {receiver.id_header!r}" if receiver.id_header else "property message_id"
        raise UnreadableError(f"It has no id in the {where}. Send one, or receive with without_id='hash'.")
    content_type = arrival.content_type or receiver.content_type
    if content_type not in receiver.content_types:
        known = ", ".join(receiver.content_types)
        raise UnreadableError(f"Its content type is {content_type[:100]!r}; this receiver takes {known}.")
    content_encoding = arrival.content_encoding or ("utf-8" if content_type == JSON else "binary")
    if codec_of(content_encoding) is None:
        raise UnreadableError(f"Its content encoding is {content_encoding[:40]!r}, which is not read.")
    queue = receiver.queue or arrival.routing_key
    if not queue:
        raise UnreadableError("It has no routing key, which would name its queue here.")
    headers = _plain(arrival.headers)
    properties = arrival.properties
    group = next((headers[name] for name in GROUPS if headers.get(name)), None)
    try:
        decode_body(arrival.body, content_type, content_encoding)
        message = publisher.check(
            publisher.OutgoingMessage(
                queue=queue,
                body=arrival.body,
                content_type=content_type,
                headers=headers,
                message_id=message_id_of(duplicate_id),
                dedup_id=duplicate_id,
                priority=priority_of(properties.get("priority")),
                ttl=ttl_seconds_of(properties.get("expiration")),
                correlation_id=_text(properties.get("correlation_id")),
                type=_text(properties.get("type") or headers.get("task")) or "",
                group_key=_text(group),
            )
        )
        return replace(message, content_encoding=content_encoding, properties=_properties(arrival))
    except (InvalidMessage, CorruptMessage) as error:
        raise UnreadableError(str(error)) from error


def kept(arrival: Incoming, queue: str) -> NewMessage:
    """Return a message that cannot be read as it is kept: its bytes, and what can be stored of the rest.

    The same arrival has the same id.
    """
    try:
        headers = json.loads(storable_json(_plain(arrival.headers)))
        encoded = encode_headers(headers)
    except (ValueError, RecursionError):
        encoded = "{}"
    if len(encoded) > MOST_HEADERS:
        encoded = "{}"
    return NewMessage(
        queue_name=queue,
        message_id=kept_id(arrival),
        body=arrival.body,
        content_type=storable(arrival.content_type or "application/octet-stream", 100),
        content_encoding=storable(arrival.content_encoding or "binary", 40),
        headers=encoded,
        properties=_properties(arrival),
        priority=priority_of(arrival.properties.get("priority")),
        type=storable(str(arrival.properties.get("type") or ""), 255),
        correlation_id=storable(str(arrival.properties.get("correlation_id") or ""), 255) or None,
    )


def kept_id(arrival: Incoming) -> UUID:
    """Return the id of the dead letter of an arrival that cannot be read."""
    said = repr(sorted(sent_headers(arrival.headers).items(), key=str)).encode(errors="replace")
    own = str(arrival.properties.get("message_id") or "").encode(errors="replace")
    return message_id_of(f"dead:{digest_of([arrival.body, said, own, arrival.routing_key.encode()])}")


def storable_json(value: Any) -> str:
    """Return JSON of texts that any database can store."""
    return json.dumps(_storable(value))


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {storable(name): _storable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return storable(value) if isinstance(value, str) else value


def _properties(arrival: Incoming) -> str:
    """Return the other properties as JSON, with where the message has come from."""
    others = {
        name: value for name, value in arrival.properties.items() if name not in OWN_COLUMNS and value is not None
    }
    others["delivery_info"] = {"exchange": arrival.exchange, "routing_key": arrival.routing_key}
    if (own := arrival.properties.get("message_id")) is not None:
        others["message_id"] = str(own)
    return storable_json(_plain(others))


def _plain(value: Any) -> Any:
    """Return a value of AMQP's tables as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | str) else _scalar(value)


def _scalar(value: Any) -> Any:
    """Return bytes as text, or in base64, and times and decimals as text. JSON has no infinity."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(bytes(value)).decode()
    if isinstance(value, float) and isfinite(value):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)
