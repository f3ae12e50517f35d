"""What tells the messages of a tick from others: a mark in their rows and, of Celery's tasks, a header.

A task that calls ``retry`` publishes another message, with the headers and the id of the task. The first message
has the id of the task as its own, so that each of them says by which id the run of the tick is known.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The listening that is told the ends of ticks. It stands in rows of messages.
LISTENING: Final = "periodic"
#: The header of a task that a tick has published, and of its retries: it is true.
TICK: Final = "x-periodic"


def run_id(message_id: UUID, headers: Mapping[str, Any]) -> UUID:
    """Return the message id that the run of a message has: that of the first message."""
    if headers.get(TICK):
        with suppress(ValueError, TypeError, AttributeError):  # another program has written the header
            return UUID(headers["id"])
    return message_id
