"""What the other broker gets of a message: its body as it was published, its headers, and its properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django_mq.delivery.codecs import UNSAID, as_published, codec_of, decode_headers, stored_properties
from django_mq.engine.decisions.dead_letters import DEATHS, deaths_in
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from django_mq.stores.records import Claimed

#: The header with the group of a message.
GROUP: Final = "x-group-key"
#: What goes on of the properties with which Kombu published a message. ``user_id`` does not: the broker compares
#: it with the user of the connection.
KEPT: Final = ("reply_to", "app_id", "type")
#: The largest priority that AMQP can express.
MOST_PRIORITY: Final = 255
PERSISTENT: Final = 2


@dataclass(slots=True)
class Outgoing:
    """A message as AMQP has it."""

    body: bytes
    headers: dict[str, Any]
    properties: dict[str, Any] = field(default_factory=dict)


def outgoing(claimed: Claimed) -> Outgoing:
    """Return what the other broker gets. Raises CorruptMessage."""
    body, encoding = claimed.body, claimed.content_encoding
    if codec_of(encoding) is None:
        body, encoding = as_published(body, encoding)
    stored = stored_properties(claimed.properties)
    properties: dict[str, Any] = {name: stored[name] for name in KEPT if stored.get(name)}
    properties |= {
        "content_type": claimed.content_type,
        "content_encoding": encoding,
        "delivery_mode": PERSISTENT,
        "message_id": str(claimed.message_id),
        "timestamp": int(claimed.published_at.timestamp()),
    }
    if UNSAID not in stored:
        properties["priority"] = min(claimed.priority, MOST_PRIORITY)
    if claimed.correlation_id is not None:
        properties["correlation_id"] = claimed.correlation_id
    if claimed.type and "type" not in properties:
        properties["type"] = claimed.type
    if claimed.expires_at is not None:
        left = (claimed.expires_at - clock.now()).total_seconds()
        properties["expiration"] = str(max(0, int(left * 1000)))
    headers = decode_headers(claimed.headers)
    if claimed.group_key is not None:
        headers.setdefault(GROUP, claimed.group_key)
    if DEATHS in headers:
        headers[DEATHS] = [{**each, "time": _time(each.get("time"))} for each in deaths_in(headers)]
    return Outgoing(bytes(body), headers, properties)


def tells_its_end(claimed: Claimed) -> bool:
    """Return whether a worker of the other broker tells how the message ends: that of a Celery task.

    Only of messages that a listening awaits; for others, the answer does not matter.
    """
    return bool(claimed.told_to) and "task" in decode_headers(claimed.headers)


def _time(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value  # not written here
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
