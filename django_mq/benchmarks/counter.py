"""Counts what worker processes have done, in a file that they share with whoever measures.

Asking a broker how much is left would burden it while it is being measured, and the more
the better it counts. Each process adds in a place of its own: nobody waits for a lock.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Processes that may count, and the bytes of one number.
PLACES, WIDTH = 64, 8


class Counter:
    """The sum of what every process has counted."""

    def __init__(self, path: Path, place: int = 0) -> None:
        self._offset = place % PLACES * WIDTH
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), PLACES * WIDTH)

    @staticmethod
    def create(path: Path) -> Counter:
        """Return a counter in a new file, at zero."""
        path.write_bytes(bytes(PLACES * WIDTH))
        return Counter(path)

    def add(self) -> None:
        """Count one more, in this process's place."""
        (value,) = struct.unpack_from("q", self._memory, self._offset)
        struct.pack_into("q", self._memory, self._offset, value + 1)

    def total(self) -> int:
        """Return the sum of all places."""
        return sum(struct.unpack_from(f"{PLACES}q", self._memory))
