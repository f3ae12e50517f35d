"""A figure of the last minutes as a line of blocks: the mean of each slot, scaled to the largest."""

from __future__ import annotations

from collections import deque
from typing import Final

#: Nothing, and seven steps up to the largest.
BLOCKS: Final = "▁▂▃▄▅▆▇█"
UNKNOWN: Final = " "
#: The most slots that are kept.
MOST_SLOTS: Final = 60


class Curve:
    """The means of a figure, one for each slot of time; slots without a value are unknown."""

    def __init__(self) -> None:
        #: Number of the slot, sum and count.
        self._slots: deque[tuple[int, float, int]] = deque(maxlen=MOST_SLOTS)

    def add(self, slot: int, value: float) -> None:
        if self._slots and self._slots[-1][0] == slot:
            _, total, count = self._slots.pop()
            self._slots.append((slot, total + value, count + 1))
        else:
            self._slots.append((slot, value, 1))

    def drawn(self, width: int) -> str:
        """Return the newest slots, so many characters."""
        if not self._slots:
            return UNKNOWN * width
        means = {slot: total / count for slot, total, count in self._slots}
        last = self._slots[-1][0]
        shown = [means.get(slot) for slot in range(last - width + 1, last + 1)]
        largest = max((value for value in shown if value is not None), default=0.0)
        return "".join(UNKNOWN if value is None else _block(value, largest) for value in shown)


def _block(value: float, largest: float) -> str:
    # A figure above nothing is seen, however small.
    return BLOCKS[0 if value <= 0 else max(1, round((len(BLOCKS) - 1) * value / largest))]
