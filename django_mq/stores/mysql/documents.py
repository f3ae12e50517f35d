"""Many messages as one JSON document, which one statement takes apart: a round trip for each would take longest.

A document must pass as one packet, which servers limit to 16 MiB and less, and is parsed as a whole: it holds
a part of a large batch. Bodies are bytes, and travel as base64.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from django_mq.stores.mysql.values import parameters
from django_mq.stores.sql.appending import NEW_MESSAGE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_mq.stores.records import NewMessage

#: A document is complete when so many messages, or bytes of bodies and headers, are in it.
MESSAGES, BYTES = 1000, 256 * 1024


def portions(messages: Sequence[NewMessage]) -> Iterator[list[NewMessage]]:
    """Yield the messages in order, as many at a time as make a document."""
    portion: list[NewMessage] = []
    size = 0
    for message in messages:
        portion.append(message)
        size += len(message.body) + len(message.headers)
        if len(portion) == MESSAGES or size >= BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def document(messages: Sequence[NewMessage], queue_ids: Mapping[str, int]) -> str:
    """Return the messages as JSON. What a message has not is left out, and read as null."""
    rows = [_object(message, queue_ids[message.queue_name]) for message in messages]
    return json.dumps(rows, ensure_ascii=False)


def _object(message: NewMessage, queue_id: int) -> dict[str, Any]:
    given = {name: value for name in NEW_MESSAGE_FIELDS if (value := getattr(message, name)) is not None}
    return parameters(given) | {"queue_id": queue_id, "body": b64encode(message.body).decode("ascii")}
