"""Browsing: nothing is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.stores.records import Browsed, time_or_none, uuid_of
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import browser as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence


class Browser(Part, subjects.Browser):
    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        beyond = {"after": after and after.id, "level": after and after.level, "place": after and after.place}
        rows = self.rows("browse", queue=name, states=list(states), limit=limit, **beyond)
        return [self.as_browsed(row) for row in rows]

    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        rows = self.rows("arrivals", queue=name, after=after, limit=limit)
        return [self.as_browsed(row) for row in rows]

    def last_arrival(self) -> int:
        return int(self.rows("last_arrival")[0][0])

    def last_finished(self) -> int:
        return int(self.rows("last_finished")[0][0])

    def unfinished(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        return self._uncommitted("arriving", known, after, last)

    def finishing(self, known: frozenset[str] | None, *, after: int, last: int) -> frozenset[str]:
        return self._uncommitted("finishing", known, after, last)

    def _uncommitted(self, statement: str, known: frozenset[str] | None, after: int, last: int) -> frozenset[str]:  # noqa: ARG002 - of subclasses
        """Name the open transactions, of those ``known``, that may still commit such a number."""
        return frozenset()

    def correlated(self, ids: Sequence[str]) -> list[Browsed]:
        hexes = [made.hex for given in ids if (made := uuid_of(given)) is not None]
        found = self.rows("find_correlated", correlation_ids=list(ids)) if ids else []
        found += self.rows("find_identified", message_ids=hexes) if hexes else []
        return [self.as_browsed(row) for row in {row[0]: row for row in found}.values()]

    def as_browsed(self, row: tuple[Any, ...]) -> Browsed:
        id_, message_id, *middle = row
        middle[4:7] = map(time_or_none, middle[4:7])
        return Browsed(id_, UUID(str(message_id)), *middle)
