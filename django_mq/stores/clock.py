"""The clock of this process, which tests can move for all stores at once.

Statements ask the database for its time by one expression, ``{now}``. A store may have an offset of its own, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(slots=True)
class ProcessClock:
    """A clock that is right, except in tests."""

    #: Added to the clock of this process and to those of all databases, in this process; only tests set it.
    offset: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset


clock = ProcessClock()
