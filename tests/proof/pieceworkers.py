"""The processes that begin pieces of work, and those that work on them, until they are killed."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, connections
from kombu.exceptions import OperationalError

from django_mq.errors import StoreError
from django_mq.results import chords
from tests.proof import celery_worker
from tests.proof.piecework import KINDS, QUEUES, deeds, do_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proof.piecework import Kind

#: What an outage raises. What it has cost is done again, unless it was committed.
OUTAGES = (DatabaseError, InterfaceError, StoreError, OperationalError)
#: A chord whose end a dead process has decided is ended by another one after so long.
CARRIED_SECONDS = 5
AT_ONCE = 8


def begin_pieces(*, count: int, pause: float) -> None:
    """Begin pieces, and do what is to be done for them later, in any order, until told to stop."""
    celery_worker.use_results()
    chance = random.Random()
    while True:
        try:
            _some(count, chance)
        except OUTAGES:
            connections["default"].close()
        threading.Event().wait(pause)


def _some(count: int, chance: random.Random) -> None:
    done = deeds("default")
    for what, kind, number in _chosen(_to_begin(count, done), chance) + _chosen(_to_do_later(count, done), chance):
        do_once(kind, what, number)


def _chosen(work: list[Any], chance: random.Random) -> list[tuple[str, Kind, int]]:
    return chance.sample(work, min(len(work), AT_ONCE))


def _to_begin(count: int, done: set[str]) -> list[tuple[str, Kind, int]]:
    return [
        ("begin", kind, number)
        for kind in KINDS
        for number in range(count)
        if kind.deed("begin", number) not in done
    ]


def _to_do_later(count: int, done: set[str]) -> list[tuple[str, Kind, int]]:
    return [
        (kind.later, kind, number)
        for kind in KINDS
        if kind.later
        for number in kind.due_later(each for each in range(count) if kind.deed(kind.later, each) not in done)
    ]


def work_on_pieces() -> None:
    """Run ``mq_worker`` with the handlers of all kinds."""
    celery_worker.use_results()
    for kind in KINDS:
        kind.declare()
    call_command("mq_worker", "--queues", ",".join(QUEUES), "--threads", "2")


def work_on_tasks(*, pool: str) -> None:
    """Run a Celery worker."""
    celery_worker.use_results()
    chords.CARRIED_SECONDS = CARRIED_SECONDS  # type: ignore[misc] # a constant otherwise
    celery_worker.run("-P", pool, "-c", "2", "-Q", celery_worker.QUEUE)


PIECE_ROLES: dict[str, Callable[..., None]] = {
    "begin_pieces": begin_pieces,
    "work_on_pieces": work_on_pieces,
    "work_on_tasks": work_on_tasks,
}
