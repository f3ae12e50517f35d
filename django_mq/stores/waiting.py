"""A message that waits in its queue, as a revoke reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits, as it was published; ``headers`` and ``properties`` are the stored JSON text."""

    id: int
    queue_name: str
    message_id: UUID
    content_type: str
    content_encoding: str
    headers: str
    properties: str | None
    body: bytes
