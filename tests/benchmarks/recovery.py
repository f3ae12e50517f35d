"""How long the messages of a killed worker are away.

    python -m tests.benchmarks.recovery --kills 10

A worker holds twenty messages and is killed with ``kill -9``; another one is idle. The time
goes from the kill until the last of the twenty has been handled. Every setting has its
default, there is no Redis, and the server is the tests' own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.proof.place import Place

#: What one worker may hold.
HELD = 20


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.recovery", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=10, help="of each database")
    given = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.sqlite")
    import django

    django.setup()
    from tests.services.postgresql import PostgreSQL

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PostgreSQL())
        for kind, url in [("PostgreSQL", server.url), ("SQLite", f"sqlite:///{directory}/recovery.sqlite3")]:
            seconds = measure(url, directory, given.kills)
            sys.stdout.write(
                f"{kind:10}  {len(seconds)} kills: median {statistics.median(seconds):.1f} s,"
                f" from {min(seconds):.1f} to {max(seconds):.1f} s\n"
            )


def measure(url: str, directory: Path, kills: int) -> list[float]:
    """Return the seconds that each kill cost."""
    from django_mq.conf import Settings
    from tests.proof.place import SHORT, Nursery, Place

    nursery = Nursery()
    with Place(url, directory, nursery, **{name: getattr(Settings(), name) for name in SHORT}) as place:
        place.prepare()
        place.declare(max_attempts=0)
        # The first is not counted: a server that has just started gives every session one deadline's grace.
        seconds = [away(place) for _ in range(kills + 1)]
    nursery.close()
    return seconds[1:]


def away(place: Place) -> float:
    """Kill a worker that holds messages; return the seconds until another has handled them all."""
    from django_mq.engine.states import State
    from tests.support.waiting import wait_until

    before = len(place.sessions())
    place.send(HELD)
    holder = place.start("consume", hold=True, credit=HELD)
    wait_until(lambda: place.count(State.CLAIMED) == HELD, place.story)
    idle = place.start("consume", noting=False)
    wait_until(lambda: len(place.sessions()) == before + 2, place.story)
    holder.kill()
    began = time.monotonic()
    wait_until(lambda: not place.count(), place.story)
    took = time.monotonic() - began
    idle.end()
    return took


if __name__ == "__main__":
    main()
