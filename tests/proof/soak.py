"""A long run with everything going wrong at once.

    python -m tests.proof.soak --messages 1000000

Publishes so many messages and lets two workers do them, on a PostgreSQL of its own, while
workers are killed and frozen, their connections are cut, and the server is restarted, at
random instants. In the end every message is accounted for. It says how it goes.
"""

from __future__ import annotations

import argparse
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.proof.clock import long_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.proof.account import Account
    from tests.proof.place import Child, Place
    from tests.services.postgresql import PostgreSQL

#: Messages in one transaction of the publisher.
BATCH = 1000
WORKERS = 2
#: What goes wrong, and how often in comparison.
LIKELY = {"kill": 16, "freeze": 4, "cut": 12, "restart": 1, "crash": 1}


@dataclass
class Soak:
    """One run."""

    place: Place
    server: PostgreSQL
    chance: random.Random
    #: Seconds between two failures, on the average.
    every: float
    workers: list[Child] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def run(self, messages: int, say: Callable[[str], None], *, schedule: Sequence[str] | None = None) -> Account:
        """Publish, work, break things until all is done, or as scheduled; return the account."""
        plan = None if schedule is None else list(reversed(schedule))
        publisher = threading.Thread(target=self._publish, args=[messages], daemon=True)
        publisher.start()
        self.workers = [self._a_worker() for _ in range(WORKERS)]
        said = 0.0
        while plan or publisher.is_alive() or self._left():
            threading.Event().wait(self.chance.expovariate(1 / self.every))
            self._break_something(plan)
            if time.monotonic() - said > 15:
                said = time.monotonic()
                say(f"{self._left():>9,} waiting, {dict(self.failures)}")
        for worker in self.workers:
            worker.end()
        return self._account()

    def _publish(self, messages: int) -> None:
        from django.db import connections

        for _ in range(0, messages, BATCH):
            patiently(lambda: self.place.send(BATCH))
        connections[self.place.alias].close()

    def _left(self) -> int:
        return int(patiently(self.place.count))

    def _account(self) -> Account:
        from tests.proof.account import Account

        return Account.of(self.place.alias)

    def _a_worker(self) -> Child:
        return self.place.start("consume", threads=2, credit=200, noting=False)

    # What goes wrong.

    def _break_something(self, plan: list[str] | None) -> None:
        how = next_failure(self.chance, LIKELY, plan)
        if how is not None:
            getattr(self, f"_{how}")()
            self.failures[how] += 1

    def _kill(self) -> None:
        victim = self.chance.randrange(WORKERS)
        self.workers[victim].kill()
        self.workers[victim] = self._a_worker()

    def _freeze(self) -> None:
        victim = self.chance.choice(self.workers)
        victim.signal(signal.SIGSTOP)
        threading.Event().wait(self.chance.uniform(0, 4))
        victim.signal(signal.SIGCONT)

    def _cut(self) -> None:
        patiently(lambda: cut_connections(self.place.alias, share=0.5))

    def _restart(self) -> None:
        self.server.stop()  # in "fast" mode
        self.server.start()

    def _crash(self) -> None:
        self.server.kill()
        self.server.start()


def next_failure(chance: random.Random, likely: Mapping[str, int], plan: list[str] | None) -> str | None:
    """Return what goes wrong next: by chance, or what ``plan`` has last; None if it has nothing any more."""
    if plan is None:
        [how] = chance.choices(list(likely), weights=list(likely.values()))
        return how
    return plan.pop() if plan else None


def patiently(step: Callable[[], Any]) -> Any:
    """Try again while the server is away. What is one transaction is never half done."""
    from django.db import DatabaseError, InterfaceError, connections

    from django_mq.errors import StoreError

    while True:
        try:
            return step()
        except (DatabaseError, InterfaceError, StoreError):
            for connection in connections.all(initialized_only=True):
                connection.close()
            threading.Event().wait(0.2)


def cut_connections(alias: str, *, share: float) -> None:
    """Have the server end that share of all connections to the database."""
    from django.db import connections

    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < %s",
            [share],
        )


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.soak", description="Lose nothing, for long.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two failures, on the average")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    with long_run() as run:
        run.place.declare(max_attempts=0)
        soak = Soak(run.place, run.server, random.Random(given.seed), given.every)
        account = soak.run(given.messages, run.say)
    account.check()
    run.say(
        f"{len(account.sent):,} published = {len(account.accepted):,} accepted + {len(account.dead):,} dead"
        f" + {len(account.present):,} present; {soak.failures.total()} failures: {dict(soak.failures)}"
    )


if __name__ == "__main__":
    main()
