"""A long run in which workers are stopped, and networks fall silent, at any message of a claim or a settlement.

    python -m tests.proof.stops --store postgresql --seconds 3600

Two workers share a queue with rules. In each round one of them, the victim, is stopped by SIGSTOP, or its network
falls silent, before or after one of its messages to the database. The other one must go on. In the end every
message is accounted for. It says how long the healthy worker stood still at most, and which messages were reached.
"""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tests.proof.clock import long_run, told
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proof.account import Account
    from tests.proof.place import Child, Place
    from tests.proof.trap import Snare, Trap

#: Others go on within so many seconds, with the default limits.
BOUND_SECONDS = 10.0
#: The rules of the queue: each claim takes the claim lock, some messages fail and die.
RULES = {"max_in_flight": 60, "max_attempts": 2, "backoff_seconds": 0.01, "grouping": "none"}
#: What only the connection says that claims by rules.
CLAIMING = "django_mq_turn"
#: The messages of some claims and settlements.
FURTHEST = 80
WAYS = ("stop", "silence")
WORK = {"threads": 2, "credit": 20, "failing": 50}
#: Limits of the victim's patience, so that a round is short.
MQ = {"STATEMENT_TIMEOUT_SECONDS": 2.0}


@dataclass
class Stops:
    """One run."""

    place: Place
    trap: Trap
    chance: random.Random
    idle_seconds: int
    points: Counter[str] = field(default_factory=Counter)
    #: The longest time in which the healthy worker finished nothing, over all rounds.
    standstill: float = 0.0
    rounds: int = 0

    def begin(self) -> None:
        """Start the workers, and a publisher that never lets them idle."""
        self.place.start("send_bodies", padding=400_000)
        self.healthy = self._a_worker("healthy", None)
        self.victim = self._a_worker("victim", self.trap.url)
        for name in ("healthy", "victim"):
            self.await_work(name)

    def _a_worker(self, name: str, url: str | None) -> Child:
        # The handlers' own connections are of no interest here, and have no limits.
        given = {"clock": str(self._clock(name)), "idle_seconds": self.idle_seconds, "notes_url": self.place.url}
        return self.place.start("consume", url=url, **given, **WORK)

    def _clock(self, name: str) -> Path:
        return self.place.directory / name

    def worked_at(self, name: str) -> float:
        """Return when a worker finished its last message, on the monotonic clock of the machine."""
        try:
            return float(self._clock(name).read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # not written yet, or at this moment
            return 0.0

    def await_work(self, name: str) -> None:
        """Wait until a worker finishes a message."""
        now = time.monotonic()
        wait_until(lambda: self.worked_at(name) > now, self.place.story)

    def round(self, way: str, number: int, *, after: bool, at: str = "") -> float:
        """Stop the victim at a message; return how long the healthy worker stood still. The victim comes back."""
        snare = self.trap.lay(number, self._act(way), after=after, on=CLAIMING, at=at)
        assert snare.sprung.wait(PATIENCE_SECONDS), f"no message about {at!r}\n{self.place.story()}"
        stood_still = self.watch()
        self.points[f"{way} {snare.point}"] += 1
        self.rounds += 1
        self.standstill = max(self.standstill, stood_still)
        self._bring_back(way, snare)
        return stood_still

    def _act(self, way: str) -> Callable[[], None]:
        return (lambda: self.victim.signal(signal.SIGSTOP)) if way == "stop" else self.trap.silence

    def watch(self) -> float:
        """Return the longest time in which the healthy worker finished nothing, until it works steadily."""
        begun = last = time.monotonic()
        longest, patience = 0.0, begun + 6 * BOUND_SECONDS
        while True:
            wait_until(partial(self._has_worked_since, last, patience), self.place.story)
            now, worked = time.monotonic(), self.worked_at("healthy")
            longest, last = max(longest, max(worked, last) - last), max(worked, last)
            if now > patience:
                return max(longest, now - last)
            # A claim may have to wait that began after the victim was stopped.
            if worked > begun + 1.0:
                return longest

    def _has_worked_since(self, before: float, end: float) -> bool:
        return self.worked_at("healthy") > before or time.monotonic() > end

    def _bring_back(self, way: str, snare: Snare) -> None:
        snare.released.set()
        self.victim.signal(signal.SIGCONT)
        if way == "silence" and self.chance.random() < 0.8:
            # The worker's host is lost, and another one takes its place.
            self.victim.kill()
            self.trap.close_silent()
            self.victim = self._a_worker("victim", self.trap.url)
        self.await_work("victim")

    def run(self, seconds: float, say: Callable[[str], None]) -> Account:
        """Do rounds for so long; return the account."""
        self.begin()
        end, said = time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            way, after = self.chance.choice(WAYS), self.chance.random() < 0.5
            self.round(way, self.chance.randint(1, FURTHEST), after=after)
            if time.monotonic() - said > 15:
                said = time.monotonic()
                say(f"{self.rounds} rounds, {len(self.points)} points, longest standstill {self.standstill:.1f} s")
        return self.finish()

    def finish(self) -> Account:
        """End the workers, let another one do what is left, and return the account."""
        for child in self.place.children[:1]:
            child.kill()  # the publisher; what it was about to commit is not noted either
        self.healthy.end()
        self.victim.end()
        return self.place.finish(**WORK)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.stops", description="Stop workers, for long.")
    parser.add_argument("--store", choices=("postgresql", "mariadb"), default="postgresql")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--idle", type=int, help="seconds until the server ends an idle transaction")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    with long_run(given.store, **MQ) as run:
        from django_mq.stores.connections import IDLE_SECONDS
        from tests.proof.trap import Trap

        with Trap(run.place.url) as trap:
            run.place.declare(**RULES)
            stops = Stops(run.place, trap, random.Random(given.seed), given.idle or IDLE_SECONDS)
            account = stops.run(given.seconds, run.say)
    for point, times in sorted(stops.points.items()):
        run.say(f"{times:5} x {point}")
    run.say(
        f"{stops.rounds} rounds, {len(stops.points)} points, longest standstill {stops.standstill:.1f} s;"
        f" {told(account)}"
    )
    account.check()
    if stops.standstill > BOUND_SECONDS:
        raise SystemExit(f"The healthy worker stood still for more than {BOUND_SECONDS:g} s.")


if __name__ == "__main__":
    main()
