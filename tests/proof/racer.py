"""A publisher that races with others for unique keys, until it kills itself or all keys are taken."""

from __future__ import annotations

import fcntl
import os
import random
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.db import DatabaseError, InterfaceError, connections, transaction

from django_mq.api import Unique, debounce, publish
from django_mq.errors import DuplicateMessage, MQError
from tests.proof.notes import SENT, note

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

#: So many publishers take part in each race.
RACERS: Final = 8
QUIET_SECONDS, MOST_SECONDS = 3600.0, 7200.0
WAIT_SECONDS = 2.0
#: How often a publisher takes both keys in one transaction.
TOGETHER: Final = 0.7
#: By the name of a race, what its publishers say of a key; each chooses one.
RULES: Final[dict[str, list[Callable[[str], Unique]]]] = {
    "unique": [
        lambda key: Unique(key=key, wait_seconds=WAIT_SECONDS),
        lambda key: Unique(key=key, second="drop", wait_seconds=WAIT_SECONDS),
        lambda key: Unique(key=key, until="begins", second="replace", wait_seconds=WAIT_SECONDS),
    ],
    "debounce": [
        lambda key: debounce(QUIET_SECONDS, at_most_seconds=MOST_SECONDS, key=key, wait_seconds=WAIT_SECONDS)
    ],
}


def race(*, queue: str, rules: str, tickets: str, races: int, death: float, rollback: float) -> None:
    """Take part in races, each with two keys, in either order: together in one transaction, or each by itself.

    It notes the ids that it was told. With these probabilities it kills itself in the middle, or rolls back.
    """
    chance = random.Random(os.getpid())
    while (ticket := next_ticket(Path(tickets))) < races * RACERS:
        keys = [f"{ticket // RACERS} {name}" for name in "ab"]
        try:
            with transaction.atomic() if chance.random() < TOGETHER else nullcontext():
                for key in reversed(keys) if ticket % 2 else keys:
                    note(SENT, _published(queue, key, chance.choice(RULES[rules])))
                    if chance.random() < death / 2:
                        os.kill(os.getpid(), signal.SIGKILL)
                if chance.random() < rollback and connections["default"].in_atomic_block:
                    transaction.set_rollback(True)
        except (MQError, DatabaseError, InterfaceError):
            connections["default"].close()


def _published(queue: str, key: str, rule: Callable[[str], Unique]) -> list[UUID]:
    try:
        return [publish(queue, {"key": key}, unique=rule(key))]
    except DuplicateMessage:
        return []


def next_ticket(file: Path) -> int:
    """Return the next number. Eight that follow one another are for one race."""
    with file.open("r+") as tickets:
        fcntl.flock(tickets, fcntl.LOCK_EX)
        ticket = int(tickets.read() or 0)
        tickets.seek(0)
        tickets.write(str(ticket + 1))
    return ticket
