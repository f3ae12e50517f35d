"""What tables take of the disk, as each kind of database tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Bytes that are worth rebuilding a table for.
MUCH_LOOSE = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Space:
    """What a table takes, by the database's own statistics; None is what it does not say."""

    table: str
    #: Bytes, with indexes, and how many of them hold nothing.
    size: int
    loose: int = 0
    rows: int | None = None
    #: Rows deleted or changed whose room nobody may use yet, and seconds since that was last seen to.
    dead_rows: int | None = None
    tended_seconds: float | None = None
    #: Settings of the table's own.
    settings: str = ""

    @property
    def is_mostly_loose(self) -> bool:
        """Whether there is much room, and more than half of all, that holds nothing."""
        return self.loose > MUCH_LOOSE and self.loose > self.size // 2


class Spacious:
    """The part of a store that says what it takes; one in memory has no tables."""

    def spaces(self) -> list[Space]:
        """Return what our tables take; none of them is read."""
        return []

    def space_problems(self, spaces: Sequence[Space]) -> list[tuple[str, str]]:  # noqa: ARG002 - for who has some
        """Return (problem, hint) for tables that grow without need. The hint may be a statement to run."""
        return []
