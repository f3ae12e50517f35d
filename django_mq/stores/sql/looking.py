"""Looking: counts and browsing, nothing taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.stores.records import Browsed, Counts
from django_mq.stores.sql.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Sequence


class Looking(Runner):
    """Count and browse."""

    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        rows = self._rows("counts", names=None if names is None else list(names), limit=limit)
        return {row[0]: Counts(*row[1:]) for row in rows}

    def occupied(self) -> list[int]:
        return [row[0] for row in self._rows("occupied")]

    def count_unknown(self, *, limit: int) -> int:
        return int(self._rows("count_unknown", limit=limit)[0][0])

    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        beyond = {"after": after and after.id, "level": after and after.level, "place": after and after.place}
        rows = self._rows("browse", queue=name, states=list(states), limit=limit, **beyond)
        return [self._browsed(row) for row in rows]

    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        return [self._browsed(row) for row in self._rows("arrivals", queue=name, after=after, limit=limit)]

    def last_arrival(self) -> int:
        return int(self._rows("last_arrival")[0][0])

    def last_finished(self) -> int:
        return int(self._rows("last_finished")[0][0])

    def _browsed(self, row: tuple[Any, ...]) -> Browsed:
        return Browsed(*row)
