"""Message ids: UUID version 7 (RFC 9562), so that the index on them grows at one end."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING
from uuid import UUID, SafeUUID

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What stands at fixed places, and where it does not.
VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
FREE_BITS = (2**128 - 1) & ~(0xF << 76 | 0x3 << 62)


#: What becomes of a random byte where the version, and where the variant stands.
VERSIONED = bytes(byte & 0x0F | 0x70 for byte in range(256))
VARIED = bytes(byte & 0x3F | 0x80 for byte in range(256))


def new_message_ids(count: int) -> list[bytes]:
    """Return so many new ids at once, 16 bytes each."""
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
    """Yield so many new ids, made when the first is asked for: one by one, the system would be asked each time."""
    yield from map(from_value, map(int.from_bytes, new_message_ids(count)))


def from_value(value: int) -> UUID:
    """Return ``UUID(int=value)`` for a value in range, without its checks: they take as long as all the rest."""
    made = object.__new__(UUID)
    # Its own __setattr__ refuses whoever comes: a UUID does not change.
    object.__setattr__(made, "int", value)
    object.__setattr__(made, "is_safe", SafeUUID.unknown)
    return made
