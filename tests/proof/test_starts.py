"""A connection ends at a step of a worker's start, or when a child of a Celery worker ends."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.proof.children import ENDS, PATIENT, Rounds
from tests.proof.clock import right_account
from tests.proof.scissors import Scissors
from tests.proof.starts import KINDS, Starts
from tests.services.pgbouncer import PORT, PgBouncer
from tests.services.server import UnavailableError
from tests.settings.databases import from_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proof.conftest import Places


@pytest.fixture
def starts(places: Places) -> Iterator[Starts]:
    """Rounds on a place of the test's own."""
    with places("postgresql") as place, Scissors(place.url) as scissors:
        yield Starts(place, scissors)


def steps_of(starts: Starts, kind: str, rounds: int) -> list[int]:
    """Return so many steps of a start, evenly distributed, the first and the last among them."""
    last = starts.count(kind) - 1
    return sorted({1 + round(number * (last - 1) / (rounds - 1)) for number in range(rounds)})


def test_an_mq_worker_starts_although_a_connection_ends(starts: Starts) -> None:
    ended = [starts.round("command", step) for step in steps_of(starts, "command", 4)]

    assert any(seconds is not None for seconds in ended)
    right_account(starts.place)


@pytest.mark.once
@pytest.mark.parametrize("answered", [False, True], ids=["before a step", "after a step"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_starts_although_a_connection_ends(starts: Starts, kind: str, *, answered: bool) -> None:
    ended = [starts.round(kind, step, answered=answered) for step in steps_of(starts, kind, 8)]

    assert any(seconds is not None for seconds in ended)
    right_account(starts.place)


@pytest.mark.once
@pytest.mark.parametrize("kind", ["command", "celery"])
def test_a_worker_starts_although_its_pooler_is_restarted(places: Places, kind: str) -> None:
    with places("postgresql", HINTS="none") as place, _pooler(from_url(place.url)) as pooler:
        host, name = quote(str(pooler.directory), safe=""), place.url.rpartition("/")[2]
        url = f"postgresql://postgres@{host}:{PORT}/{name}"
        # A thread that stays: the pooler ends with the thread that has started it.
        with Scissors(url) as scissors, ThreadPoolExecutor(1) as thread:
            starts = Starts(place, scissors, pooled=True)
            for step in steps_of(starts, kind, 4):
                starts.round(kind, step, act=lambda: thread.submit(_restart, pooler).result())
            right_account(starts.place)


def _pooler(settings: dict[str, Any]) -> PgBouncer:
    try:
        return PgBouncer(settings)
    except UnavailableError as missing:
        pytest.skip(str(missing))


def _restart(pooler: PgBouncer) -> None:
    pooler.stop()
    pooler.start()


@pytest.mark.once
@pytest.mark.parametrize("end", ENDS)
def test_a_celery_worker_goes_on_when_its_children_end_at_a_lost_connection(places: Places, end: str) -> None:
    with places("postgresql", **PATIENT) as place:
        rounds = Rounds(place, random.Random(5))
        rounds.begin(end)
        for _ in range(4):
            rounds.round()
        rounds.end()
        right_account(rounds.place)
