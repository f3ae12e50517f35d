"""The place of a message in a sorted queue: the value of one header, least first.

A number has the place that its bits say as a float of 64 bits: a larger number has a larger place. A time has the
place of its microseconds since 1970. Equal values stand in order of arrival.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django_mq.errors import InvalidMessage, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBER: Final = "number"
TIME: Final = "time"
#: What an error says that a header must be.
WANTED: Final = {
    NUMBER: "a number that fits a float",
    TIME: "a time with its offset from UTC, such as '2031-05-01T12:00:00+00:00'",
}
#: The place of a message without a value: before all others. Only a move can bring it to a sorted queue.
FIRST: Final = -(2**63)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Sorting(NamedTuple):
    """The header by which a queue is sorted, and the type of its values."""

    header: str
    type: str = NUMBER

    def place(self, queue: str, headers: Mapping[str, Any]) -> int:
        """Return the place of a message. Raises InvalidMessage if its header is missing or of another type.

        >>> by_weight = Sorting("weight")
        >>> by_weight.place("parcels", {"weight": -1}) < 0 < by_weight.place("parcels", {"weight": 0.5})
        True
        """
        value = headers.get(self.header)
        if value is None:
            raise InvalidMessage(
                f"The queue {queue!r} is sorted by the header {self.header!r}, and the message has none: "
                f"give it a {self.type}."
            )
        found = _time(value) if self.type == TIME else _number(value)
        if found is None:
            raise InvalidMessage(
                f"The queue {queue!r} is sorted by the header {self.header!r}, which is {_shown(value)}: "
                f"give it {WANTED[self.type]}."
            )
        return found

    def place_or_first(self, headers: Mapping[str, Any]) -> int:
        """Return the place of a message that may come from another queue."""
        try:
            return self.place("", headers)
        except InvalidMessage:
            return FIRST


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not isfinite(number):
        return None
    [bits] = struct.unpack(">q", struct.pack(">d", number + 0.0))  # -0.0 + 0.0 is 0.0
    # The bits of negative numbers fall as the number grows.
    return int(bits if bits >= 0 else bits ^ (2**63 - 1))


def _time(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return None if time.tzinfo is None else (time - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def _shown(value: object) -> str:
    return shown(value) if isinstance(value, str) else f"of type {type(value).__name__}"
