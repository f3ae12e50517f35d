"""What a handler has said of its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProgress:
    """How far the handler of a message was when it last said so."""

    message_id: UUID
    queue: str
    #: As a part of 1.
    fraction: float
    #: In words; blank if the handler has given none.
    text: str
    #: The number of the attempt that said so: a later one may have begun since.
    attempt: int
    reported_at: datetime
