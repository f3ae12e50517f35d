"""Pool children that end while the connections of their worker are cut.

    python -m tests.proof.children --seconds 3600

A Celery worker whose children end after two tasks, or for their memory, works on a PostgreSQL of its own. In each
round, tasks end all connections but their own: the worker loses its connection just when a child ends. Then it
must handle what is left. It says how many rounds there were, and how long the worker took at most to the next
message. In the end every message is accounted for.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.proof.clock import by_the_clock, right_account, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proof.place import Child, Place

#: A worker that handles nothing for so long stands still.
BOUND_SECONDS = 60.0
#: Tasks of a round.
TASKS = 12
#: Rounds of one worker.
ROUNDS = 5
#: How children are made to end: after two tasks, or after each, because none is so small.
ENDS = {"tasks": ["--max-tasks-per-child", "2"], "memory": ["--max-memory-per-child", "1"]}
#: What Celery says when its main process has read half of a result, because the child that wrote it was ended. It
#: then ends, or hangs while it ends, with any broker. A supervisor starts it again.
DEATH = "Unrecoverable error: OSError('End of file during message')"
#: A lost connection must not cost a worker its session, however slow the machine is.
PATIENT = {"SESSION_SECONDS": 60}


@dataclass
class Rounds:
    """The rounds on one place."""

    place: Place
    chance: random.Random
    rounds: int = 0
    #: The longest time between two messages of a round, in seconds.
    longest: float = 0.0
    #: How often Celery's main process has died.
    deaths: int = 0
    _worker: Child | None = None
    _end: str = ""
    #: How much of the log was read.
    _read: int = 0

    def begin(self, end: str) -> None:
        """Start a worker whose children end so."""
        self._end = end
        self._worker = self.place.start("celery", options=["-c", "2", *ENDS[end]])

    def end(self) -> None:
        """Ask the worker to end, and wait until it has."""
        if self._worker is not None:
            self._worker.end()

    def _has_begun_again(self) -> bool:
        """Start the worker again if Celery has died; return whether it had."""
        if self._worker is None or not self.place.log.exists():
            return False
        with self.place.log.open("rb") as log:
            log.seek(self._read)
            said = log.read()
        self._read += len(said)
        if DEATH.encode() not in said:
            return False
        self.deaths += 1
        self._worker.kill()
        self.begin(self._end)
        return True

    def round(self) -> None:
        """Publish tasks of which one or two cut the connections; wait until all are handled."""
        from tests.proof.celery_worker import send_tasks
        from tests.support.waiting import wait_until

        cuts = self.chance.sample(range(TASKS), self.chance.choice([1, 1, 2]))
        send_tasks(self.place, TASKS, cut=cuts)
        since, left = time.monotonic(), TASKS
        while left:
            wait_until(
                lambda: self._left() < left or self._has_begun_again(),  # noqa: B023 - called at once
                self.place.story,
                seconds=BOUND_SECONDS,
            )
            left, now = self._left(), time.monotonic()
            self.longest, since = max(self.longest, now - since), now
        self.rounds += 1

    def _left(self) -> int:
        """Return how many messages are left."""
        from django.db import DatabaseError, InterfaceError, connections

        while True:
            try:
                return self.place.count()
            except (DatabaseError, InterfaceError):
                connections[self.place.alias].close()  # a task has cut this connection, too


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.children",
        description="End, with workers that are cut off.",
    )
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    def work(place: Place, say: Callable[[str], None], until: float) -> str:
        rounds = Rounds(place, random.Random(given.seed))
        while time.monotonic() < until:
            for end in ENDS:
                rounds.begin(end)
                for _ in range(ROUNDS):
                    rounds.round()
                rounds.end()
                say(_figures(rounds))
        return f"{_figures(rounds)}; {told(right_account(place))}"

    by_the_clock(work, given.seconds, **PATIENT)


def _figures(rounds: Rounds) -> str:
    times = f"at most {rounds.longest:.1f} s to the next message"
    return f"{rounds.rounds} rounds, {times}; Celery has died {rounds.deaths} times"


if __name__ == "__main__":
    main()
