"""Parking: take messages out of the way of claims, and bring them back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django_mq.stores.records import PARK_KEY_LENGTH, storable
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import parking as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django_mq.stores.records import Parked
    from django_mq.stores.sql.database import Asking, Rows, Statement


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
            each = self.database.each
            return frozenset(row[0] for rows in each(self.parking(each, parked)) for row in rows)

    def parking(self, ask: Asking, parked: Sequence[Parked]) -> list[Statement]:  # noqa: ARG002 - of those that lock first
        """Return the statements that park, in the steps of a claim; each returns the ids that it has parked."""
        return parking(parked)

    def free(self, queue: str, key: str, limit: int) -> int:
        return len(self.rows("free", queue=queue, key=stored_key(key), limit=limit))

    def free_with(
        self, ask: Asking, frees: Sequence[tuple[str, str, int]], then: Sequence[Statement]
    ) -> tuple[list[int], list[Rows]]:
        """Free so many messages of each queue and key in the steps of a claim, and ask something then.

        Return how many of each are free, and the answers.
        """
        given = [{"queue": queue, "key": stored_key(key), "limit": most} for queue, key, most in frees]
        answers = ask([*(("free", each) for each in given), *then])
        return [len(rows) for rows in answers[: len(given)]], answers[len(given) :]

    def free_due(self, limit: int, queues: Collection[str] | None = None) -> int:
        return len(self.rows("free_due", limit=limit, every=queues is None, queues=list(queues or ())))
