"""A worker is stopped, or its network falls silent, in the middle of a claim or a settlement: the others go on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from django_mq.stores.connections import IDLE_SECONDS
from tests.proof.stops import BOUND_SECONDS, MQ, RULES, Stops
from tests.proof.trap import Trap

if TYPE_CHECKING:
    from tests.proof.conftest import Places

LOCK, FACTS, COMMIT = "django_mq_turn", "SELECT 0 AS kind", "COMMIT"
SETTLE, LEASE = "DELETE FROM django_mq_message", "SET state = 2"
#: What happens to the victim, and after or before which of its messages.
POINTS = [
    ("stop", f"Execute INSERT INTO {LOCK}", True),
    ("stop", f"Sync {FACTS}", True),
    ("silence", f"Sync {FACTS}", True),
    ("stop", FACTS, True),
    ("silence", FACTS, False),
    ("stop", SETTLE, True),
    ("stop", LEASE, True),
    ("silence", LEASE, True),
    ("stop", COMMIT, False),
    ("silence", COMMIT, True),
]


def stood_still(places: Places, kind: str, point: tuple[str, str, bool], *, idle_seconds: int = 1) -> float:
    """Stop a worker at a point; return for how long another one stood still. Nothing is lost."""
    way, at, after = point
    with places(kind, **MQ) as place, Trap(place.url) as trap:
        place.declare(**RULES)
        stops = Stops(place, trap, random.Random(1), idle_seconds)
        stops.begin()
        seconds = stops.round(way, 1, after=after, at=at if kind == "postgresql" else at.rpartition(" ")[2])
        account = stops.finish()
    account.check()
    return seconds


@pytest.mark.on("postgresql")
@pytest.mark.once
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize(
    "point", POINTS, ids=lambda point: f"{point[0]} {'after' if point[2] else 'before'} {point[1]}"
)
def test_others_go_on_at_each_point(places: Places, kind: str, point: tuple[str, str, bool]) -> None:
    assert stood_still(places, kind, point) < BOUND_SECONDS


@pytest.mark.once
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_others_go_on_within_ten_seconds_by_default(places: Places, kind: str) -> None:
    assert stood_still(places, kind, POINTS[1], idle_seconds=IDLE_SECONDS) < BOUND_SECONDS
