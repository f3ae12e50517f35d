"""Workers, publishers and the database die at random while chords, batches, workflows and durable handlers run.

    python -m tests.proof.pieces --store postgresql --count 500

So many pieces of each kind are begun. Two ``mq_worker``, a Celery worker, two publishers, and the server if there
is one, are killed at any instant, until most pieces have ended. Then all go on, until all pieces have ended, as
each promises: its callback once, what its steps write once, nothing stuck, nothing lost.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from tests.proof.clock import long_run
from tests.proof.soak import patiently
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proof.place import Child, Place
    from tests.services.server import Server

#: If no piece has ended for so long without a death, those that are left are stuck.
PATIENCE_SECONDS = 180.0
#: What dies, and how often in comparison.
LIKELY = {"work_on_pieces": 8, "work_on_tasks": 3, "begin_pieces": 4, "database": 2}
#: How many processes there are of each role.
PROCESSES = {"work_on_pieces": 2, "work_on_tasks": 1, "begin_pieces": 2}
#: How long the database is away at most, besides the time that it needs to start.
AWAY_SECONDS = 3.0
#: The rest of the pieces ends without deaths.
MOSTLY = 0.95


def settings() -> dict[str, Any]:
    """Return the settings of the place."""
    from tests.proof.piecework import QUEUES

    return {"QUEUES": {name: {"backoff_seconds": 0.05, "history_days": 100} for name in QUEUES}}


@dataclass
class Pieces:
    """One run."""

    place: Place
    server: Server | None
    chance: random.Random
    count: int
    #: Seconds between two deaths, on the average.
    every: float = 1.5
    pool: str = "prefork"
    deaths: Counter[str] = field(default_factory=Counter)
    _children: list[tuple[str, Child]] = field(default_factory=list)

    def run(self, say: Callable[[str], None] = lambda _: None) -> list[str]:
        """Kill until most pieces have ended, and let the others end; return what is wrong then."""
        from tests.proof.piecework import make_table

        make_table(self.place.alias)
        self.place.declare(max_attempts=0, backoff_seconds=0.05, history_days=100)
        self._children = [(role, self._start(role)) for role, number in PROCESSES.items() for _ in range(number)]
        self._live_long_enough()
        said, left, since = 0.0, self.count * 4, time.monotonic()
        while left > (1 - MOSTLY) * self.count * 4 and time.monotonic() < since + PATIENCE_SECONDS / 2:
            threading.Event().wait(self.chance.expovariate(1 / self.every))
            self._kill()
            if (now_left := sum(self._left().values())) < left:
                left, since = now_left, time.monotonic()
            if time.monotonic() - said > 15:
                said = time.monotonic()
                say(f"not ended: {self._left()}; deaths: {dict(self.deaths)}")
        since = time.monotonic()
        while not self._is_over() and time.monotonic() < since + PATIENCE_SECONDS:
            self._start_again()
            threading.Event().wait(0.2)
            if (now_left := sum(self._left().values())) < left:
                left, since = now_left, time.monotonic()
        for _, child in self._children:
            kill_all(child)
        return self._wrong()

    def _live_long_enough(self) -> None:
        """Wait until a piece has ended. On a busy machine, all live longer."""
        began = time.monotonic()
        wait_until(lambda: min(self._left().values()) < self.count, self.place.story)
        self.every = max(self.every, (time.monotonic() - began) / 4)

    def _start(self, role: str) -> Child:
        options: dict[str, dict[str, Any]] = {
            "begin_pieces": {"count": self.count, "pause": 0.2},
            "work_on_tasks": {"pool": self.pool},
        }
        return self.place.start(role, **options.get(role, {}))

    def _start_again(self) -> None:
        """Do what a supervisor does for a process that has ended."""
        for number, (role, child) in enumerate(self._children):
            if not child.alive:
                self.deaths[f"{role} ended"] += 1
                self._children[number] = role, self._start(role)

    def _kill(self) -> None:
        self._start_again()
        likely = {what: weight for what, weight in LIKELY.items() if self.server or what != "database"}
        [what] = self.chance.choices(list(likely), weights=list(likely.values()))
        self.deaths[what] += 1
        if what == "database":
            assert self.server is not None
            self.server.kill()
            threading.Event().wait(self.chance.uniform(0, AWAY_SECONDS))
            self.server.start()
            return
        number = self.chance.choice([number for number, (role, _) in enumerate(self._children) if role == what])
        # The machine dies with all its processes, or only the one that has the others as its children.
        (kill_all if self.chance.random() < 0.5 else type(self._children[number][1]).kill)(
            self._children[number][1]
        )
        self._children[number] = what, self._start(what)

    # Looking.

    def _left(self) -> dict[str, int]:
        from tests.proof.piecework import KINDS

        alias, found = self.place.alias, {}
        for kind in KINDS:
            found[kind.name] = patiently(lambda: kind.left(alias, self.count))  # noqa: B023 - called at once
        return found

    def _is_over(self) -> bool:
        """Whether all have ended, and their callbacks were handled."""
        from django_mq.engine.states import State

        if any(self._left().values()):
            return False
        waiting = (State.READY, State.CLAIMED, State.SCHEDULED)
        return not patiently(lambda: self.place.count(*waiting))

    def _wrong(self) -> list[str]:
        from django_mq.models import Message
        from tests.proof.piecework import KINDS, notes_by_piece

        alias = self.place.alias
        found = patiently(lambda: notes_by_piece(alias))
        wrong = [each for kind in KINDS for each in kind.all_wrong(alias, self.count, found)]
        if left := sum(self._left().values()):
            wrong.insert(0, f"{left} are stuck: {self._left()}")
        messages = Message.objects.using(alias).order_by().values_list("queue__name", "state", "dead_reason")
        for (queue, state, reason), number in Counter(messages).items():
            if not (state == Message.Status.DEAD and reason):
                wrong.append(f"{number} messages of {queue} are left in state {state}")
        return wrong


def kill_all(child: Child) -> None:
    """Kill a process with its children."""
    try:
        children = psutil.Process(child.pid).children(recursive=True) if child.alive else []
    except psutil.NoSuchProcess:
        children = []
    child.kill()
    for each in children:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def main() -> None:
    """Run it from the command line."""
    from tests.proof.races import sqlite_run

    parser = argparse.ArgumentParser(prog="python -m tests.proof.pieces", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql", "mariadb"), default="postgresql")
    parser.add_argument("--count", type=int, default=500, help="pieces of each kind")
    parser.add_argument("--every", type=float, default=1.5, help="seconds between two deaths, on the average")
    parser.add_argument("--pool", choices=("prefork", "threads"), default="prefork")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    chance = random.Random(given.seed)

    def work(place: Place, server: Server | None, say: Callable[[str], None]) -> None:
        place.mq |= settings()
        say(f"seed {given.seed}, {given.store}, {given.count} of each kind, pool {given.pool}")
        began = time.monotonic()
        pieces = Pieces(place, server, chance, given.count, given.every, given.pool)
        wrong = pieces.run(say)
        seconds = time.monotonic() - began
        say(
            f"{given.count} of each kind in {seconds:.0f} s, {pieces.deaths.total()} deaths: {dict(pieces.deaths)}"
        )
        say("\n".join(wrong) or "all as promised")
        if wrong:
            say(place.said[-20_000:])
            raise SystemExit(1)

    if given.store == "sqlite":
        with sqlite_run() as (place, say):
            work(place, None, say)
    else:
        with long_run(given.store, durable=False) as run:
            work(run.place, run.server, run.say)


if __name__ == "__main__":
    main()
