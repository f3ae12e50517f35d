"""Parking: take messages out of the way of claims, and bring them back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django_mq.stores.records import PARK_KEY_LENGTH, storable
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import parking as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django_mq.engine.decisions.claim_limits import Freed
    from django_mq.stores.records import Parked
    from django_mq.stores.sql.database import Asking, Statement


def stored_key(key: str) -> str:
    return storable(key, PARK_KEY_LENGTH)


def alike(parked: Sequence[Parked]) -> Mapping[tuple[str, float | None], list[int]]:
    """Return the ids by key and seconds: those have one statement."""
    found: defaultdict[tuple[str, float | None], list[int]] = defaultdict(list)
    for id_, key, seconds in parked:
        found[stored_key(key), seconds].append(id_)
    return found


def parking(parked: Sequence[Parked]) -> list[Statement]:
    """Return the statements that park ready messages."""
    return [
        ("park", {"ids": ids, "key": key, "seconds": seconds}) for (key, seconds), ids in alike(parked).items()
    ]


class Parking(Part, subjects.Parking):
    def park(self, parked: Sequence[Parked]) -> frozenset[int]:
        with self.database.transaction():
            return self.park_with(self.database.each, parked)

    def park_with(self, ask: Asking, parked: Sequence[Parked]) -> frozenset[int]:
        """Park in the steps of a claim."""
        return frozenset(row[0] for rows in ask(parking(parked)) for row in rows)

    def free(self, queue: str, key: str, limit: int) -> int:
        return len(self.rows("free", queue=queue, key=stored_key(key), limit=limit))

    def free_with(self, ask: Asking, queue: str, frees: Sequence[Freed]) -> list[int]:
        """Free messages of each key in the steps of a claim; return how many of each."""
        given = [{"queue": queue, "key": stored_key(key), "limit": most} for key, most in frees]
        return [len(rows) for rows in ask([("free", each) for each in given])]

    def free_due(self, limit: int, queues: Collection[str] | None = None) -> int:
        return len(self.rows("free_due", limit=limit, every=queues is None, queues=list(queues or ())))
