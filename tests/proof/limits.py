"""Workers that are killed keep to limits by key: how many run at once, and how many begin in a time.

    python -m tests.proof.limits --seconds 600 --store mariadb

Six workers handle messages of a few keys, and are killed at random. At no instant more of a key run than may, and
in no window more begin than the rate and the burst allow. In the end everything has run.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.proof.clock import long_run
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.proof.place import Child, Place

WORKERS, KEYS, HOSTS = 6, 4, 3
#: A killed worker's session; a worker that only waits for a processor must not be taken for dead.
SESSION = {"SESSION_SECONDS": 6, "MAINTENANCE_SECONDS": 0.5}
#: A claim reads the time, and leases a little later.
CLAIM_SECONDS = 0.25
MESSAGES = 200


class Result(NamedTuple):
    killed: int
    finished: int
    #: Whether more of a key ran at once than may.
    clashed: bool
    #: The window that went furthest beyond its limit, and by how many messages; 0 or less: none did.
    beyond: float

    def check(self) -> None:
        """Raise AssertionError if anything is wrong."""
        assert not self.clashed, self
        assert self.beyond <= 0, self
        assert min(self.finished, self.killed) > 0, self


def run(place: Place, seconds: float, say: Callable[[str], None] = lambda _: None) -> Result:
    """Kill workers for so long, then let the others finish; return what was seen."""
    from tests.proof.roles import QUEUE

    chance, killed = random.Random(1), 0
    children: list[Child] = []
    until, said = time.monotonic() + seconds, time.monotonic()
    given: dict[str, Any] = {"queue": QUEUE, "directory": str(place.directory), "threads": 4}
    while time.monotonic() < until:
        if place.count() < MESSAGES // 2:
            publish(place, MESSAGES)
        children = [each for each in children if each.alive]
        children += [place.start("limited", **given) for _ in range(WORKERS - len(children))]
        threading.Event().wait(chance.uniform(0.2, 1.5))
        chance.choice(children).kill()
        killed += 1
        if time.monotonic() > said + 30:
            said = time.monotonic()
            say(f"{killed} workers killed, {len(begun(place))} messages have run")
    wait_until(lambda: not place.count(), place.story)
    for each in children:
        if each.alive:
            each.end()
    times: defaultdict[str, list[float]] = defaultdict(list)
    for host, at in begun(place):
        times[host].append(at)
    clashed = (place.directory / "clash").exists()
    return Result(killed, sum(map(len, times.values())), clashed, max(map(most_beyond, times.values())))


def publish(place: Place, count: int) -> None:
    """Publish messages of all keys and hosts, in turn; the type says the host again."""
    from django_mq.api import OutgoingMessage, publish_many
    from tests.proof.roles import QUEUE

    publish_many(
        [
            OutgoingMessage(
                queue=QUEUE,
                body={"host": f"host {number % HOSTS}"},
                headers={"key": f"key {number % KEYS}"},
                type=f"host {number % HOSTS}",
            )
            for number in range(count)
        ],
        using=place.alias,
    )


def begun(place: Place) -> list[tuple[str, float]]:
    """Return the host of each message that has run, and when it was claimed."""
    from django_mq.models import History

    rows = History.objects.using(place.alias).filter(claimed_at__isnull=False)
    return [(host, at.timestamp()) for host, at in rows.values_list("type", "claimed_at")]


def most_beyond(times: Iterable[float]) -> float:
    """Return how many messages more than allowed began, in the window that went furthest."""
    from tests.proof.limited import BURST, PER_SECOND

    # Of all windows that end at a message, the worst begins where number - rate * time was least.
    least, most = float("inf"), float("-inf")
    for number, at in enumerate(sorted(times)):
        least = min(least, number - PER_SECOND * at)
        most = max(most, number + 1 - PER_SECOND * (at + CLAIM_SECONDS) - BURST - least)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.limits", description=__doc__)
    parser.add_argument("--store", choices=["postgresql", "mariadb"], default="postgresql")
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args()
    with long_run(asked.store, durable=False, **SESSION) as long:
        result = run(long.place, asked.seconds, long.say)
        long.say(str(result))
        result.check()


if __name__ == "__main__":
    main()
