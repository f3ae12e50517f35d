"""One message as its publisher gives it, and the checks that make a row of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.delivery import validation
from django_mq.delivery.codecs import encode_body, encode_json, new_message_id
from django_mq.errors import InvalidMessage
from django_mq.stores.records import NewMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

#: The headers of a message that has none.
NO_HEADERS = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message for ``publish_many``; the fields are the arguments of ``publish``."""

    queue: str = ""
    body: Any = None
    exchange: str | None = None
    routing_key: str = ""
    priority: int = 4
    deliver_at: datetime | None = None
    delay: timedelta | float | None = None
    expires_at: datetime | None = None
    ttl: timedelta | float | None = None
    headers: Mapping[str, Any] | None = None
    message_id: UUID | str | None = None
    correlation_id: str | None = None
    type: str = ""
    group_key: str | None = None
    dedup_id: str | None = None
    content_type: str | None = None


#: Stands for the letter that a pair of queue and body is: no exchange, and nothing said.
PLAIN = Letter()


def check_plain(given: Letter | tuple[str, Any], ids: Iterator[UUID]) -> tuple[Letter, NewMessage] | None:
    """Check a pair as ``check`` would check its letter, in a third of the time; None for anything else."""
    if type(given) is not tuple or len(given) != 2:
        return None
    return PLAIN, check_body(*given, next(ids))


def check_body(queue: str, body: Any, message_id: UUID) -> NewMessage:
    """Return the message that a queue and a body are. Raises InvalidMessage and its kin."""
    name = validation.check_target(queue, None)
    encoded, content_type = encode_body(body)
    validation.check_size(encoded)
    return NewMessage(queue_name=name, message_id=message_id, body=encoded, content_type=content_type)


def as_letter(given: Letter | tuple[str, Any]) -> Letter:
    """Return the letter, or make one of a pair of queue and body. Raises InvalidMessage."""
    if isinstance(given, Letter):
        return given
    if not isinstance(given, tuple) or len(given) != 2:
        raise InvalidMessage(f"Publish a Letter, or a pair of queue and body, not {type(given).__name__}.")
    return Letter(queue=given[0], body=given[1])


def check(letter: Letter) -> tuple[Letter, NewMessage]:
    """Return the letter with its message, checked and encoded. Raises InvalidMessage and its kin."""
    target = validation.check_target(letter.queue, letter.exchange)
    validation.text(letter.routing_key, "routing_key")
    deliver_at, delay_seconds = validation.moment(letter.deliver_at, letter.delay, "deliver_at", "delay")
    expires_at, ttl_seconds = validation.moment(letter.expires_at, letter.ttl, "expires_at", "ttl")
    body, content_type = encode_body(letter.body, letter.content_type)
    headers = _checked_headers(letter.headers)
    validation.check_size(body)
    return letter, NewMessage(
        queue_name=target if letter.exchange is None else "",
        message_id=validation.message_id(letter.message_id) or new_message_id(),
        body=body,
        content_type=validation.text(content_type, "content_type", limit=100),
        headers=headers,
        priority=validation.priority(letter.priority),
        type=validation.text(letter.type, "type"),
        correlation_id=validation.text(letter.correlation_id, "correlation_id") or None,
        group_key=validation.text(letter.group_key, "group_key") or None,
        dedup_id=validation.text(letter.dedup_id, "dedup_id") or None,
        deliver_at=deliver_at,
        delay_seconds=delay_seconds,
        expires_at=expires_at,
        ttl_seconds=ttl_seconds,
    )


def _checked_headers(given: Mapping[str, Any] | None) -> str:
    if given is None:
        return NO_HEADERS
    headers = encode_json(validation.headers(given), "headers")
    validation.check_json(headers, "headers")
    validation.check_size(headers, "headers")
    return headers
