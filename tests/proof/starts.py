"""Workers that start while a connection ends, at each step of the start.

    python -m tests.proof.starts --seconds 3600

Starts a Celery worker and an ``mq_worker`` in turn, on a PostgreSQL of its own, and ends the connection that takes
the first, second, third ... step of the start: before the server has it, or after. Then the worker must handle a
message. It says after each pass how many rounds there were, and how long the longest took from the end of the
connection to the first message. In the end every message is accounted for.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.proof.clock import by_the_clock, right_account, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proof.place import Place
    from tests.proof.scissors import Scissors

#: A worker that handles nothing for so long has not come back.
BOUND_SECONDS = 60.0
#: The steps of a start that are tried at most: the connections of an idle worker take more for ever.
MOST_STEPS = 200
KINDS: dict[str, dict[str, Any]] = {
    "command": {},
    "celery": {"options": ["-c", "1"]},
    "solo": {"options": ["-P", "solo"]},
}


@dataclass
class Starts:
    """The rounds on one place, whose workers come by way of the scissors."""

    place: Place
    scissors: Scissors
    #: Whether a pooler is behind the scissors.
    pooled: bool = False
    #: Seconds from the end of a connection to the first message, by kind of worker and step.
    seconds: dict[tuple[str, int, bool], float] = field(default_factory=dict)
    rounds: int = 0

    def count(self, kind: str) -> int:
        """Return how many steps a start takes, to its first message, if nothing ends."""
        self._play(kind, None)
        return min(self.scissors.steps, MOST_STEPS)

    def round(self, kind: str, step: int, **how: Any) -> float | None:
        """Start a worker whose connection ends at a step; return the seconds from there to its first message.

        Return None if the worker handled the message before.
        """
        handled_at = self._play(kind, step, **how)
        self.rounds += 1
        if self.scissors.cut is None or handled_at < self.scissors.cut:
            return None
        taken = handled_at - self.scissors.cut
        self.seconds[kind, step, bool(how.get("answered"))] = taken
        return taken

    def _play(self, kind: str, step: int | None, **how: Any) -> float:
        from tests.proof.celery_worker import send_tasks
        from tests.support.waiting import wait_until

        self.scissors.cut_at(step, **how)
        if kind == "command":
            self.place.send(1)
        else:
            send_tasks(self.place, 1)
        role = "command" if kind == "command" else "celery"
        worker = self.place.start(role, url=self.scissors.url, pooled=self.pooled, **KINDS[kind])
        wait_until(lambda: not self.place.count(), self.place.story, seconds=BOUND_SECONDS)
        handled_at = time.monotonic()
        worker.end()
        return handled_at

    def passes(self) -> Iterator[int]:
        """Play a round for each step of each kind of start, both ways; yield the number of the pass, for ever."""
        number = 0
        while True:
            number += 1
            for kind in KINDS:
                for step in range(1, self.count(kind) + 1):
                    for answered in (False, True):
                        self.round(kind, step, answered=answered)
                        yield number


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.starts", description="Start while others end.")
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_args()

    def work(place: Place, say: Callable[[str], None], until: float) -> str:
        from tests.proof.scissors import Scissors

        with Scissors(place.url) as scissors:
            starts = Starts(place, scissors)
            before = 1
            for number in starts.passes():
                if number != before or starts.rounds % 50 == 0:
                    before = number
                    say(f"{starts.rounds} rounds, {_longest(starts)}")
                if time.monotonic() > until:
                    break
            return f"{starts.rounds} rounds, {_longest(starts)}; {told(right_account(place))}"

    by_the_clock(work, given.seconds)


def _longest(starts: Starts) -> str:
    if not starts.seconds:
        return "no connection has ended yet"
    (kind, step, answered), seconds = max(starts.seconds.items(), key=lambda item: item[1])
    when = "after" if answered else "before"
    return f"the longest {seconds:.1f} s to the first message, of {kind}, {when} step {step}"


if __name__ == "__main__":
    main()
