"""Message ids: UUID version 7 (RFC 9562), so that the index on them grows at one end."""

from __future__ import annotations

import os
import time
from uuid import UUID

#: What stands at fixed places, and where it does not.
VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
FREE_BITS = (2**128 - 1) & ~(0xF << 76 | 0x3 << 62)


def new_message_id() -> UUID:
    """Return a new id: 48 bits of milliseconds since 1970, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    return UUID(int=value & FREE_BITS | VERSION_AND_VARIANT)
