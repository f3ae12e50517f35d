"""What every program is asked for, and how it answers.

``one`` and ``many``: messages published per second, one by one and in batches of 1,000. ``drain``: messages
per second of a worker that finds AMOUNT waiting. ``waits``: milliseconds from just before each of SAMPLES
publishes to the first line of the handler, worker idle. What a peer cannot do is null.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BATCH = 1000
#: How many are published one by one, and how many pick-ups are timed.
SINGLES, SAMPLES = 2000, 200
#: A worker has so long to become idle again between two pick-ups, in seconds.
PAUSE_SECONDS = 0.01
#: Pick-ups thrown away at the beginning.
WARM_UP = 10
PATIENCE_SECONDS = 60.0


def given() -> tuple[str, str, int]:
    """Return the URLs of the database and of Redis, and how many messages."""
    return sys.argv[1], sys.argv[2], int(sys.argv[3])


def batches(amount: int) -> list[range]:
    """Return the numbers of the messages, batch by batch."""
    return [range(start, min(start + BATCH, amount)) for start in range(0, amount, BATCH)]


class Stopwatch:
    """Counts messages per second from its making on."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def rate(self, amount: int) -> float:
        """Return how many per second that was."""
        return amount / (time.perf_counter() - self._begin)


class Arrivals:
    """Times messages that a thread of this process receives."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._at = 0.0

    def stamp(self) -> None:
        """Say that the message has arrived."""
        self._at = time.perf_counter()
        self._arrived.set()

    def times(self, send: Callable[[], object], samples: int = SAMPLES) -> list[float]:
        """Send one message after the other and return the milliseconds that each took."""
        waits = []
        for _ in range(samples + WARM_UP):
            self._arrived.clear()
            begin = time.perf_counter()
            send()
            if not self._arrived.wait(PATIENCE_SECONDS):
                raise TimeoutError("a message did not arrive")
            waits.append((self._at - begin) * 1000)
            time.sleep(PAUSE_SECONDS)
        return waits[WARM_UP:]


def answer(*, one: float, many: float | None, drain: float, waits: Sequence[float]) -> None:
    """Write the figures as the last line of the output."""
    sys.stdout.write(json.dumps({"one": one, "many": many, "drain": drain, "waits": list(waits)}) + "\n")


# Handlers that wait: ``python -m tests.benchmarks.waiting``.

#: How long each handler waits.
WAIT_SECONDS = 0.1


def given_waiting() -> tuple[str, int, int]:
    """Return the URL of the database, how many messages, and how many may be handled at a time."""
    return sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def answer_waiting(rate: float, **more: float) -> None:
    """Write how many messages per second were handled as the last line of the output."""
    sys.stdout.write(json.dumps({"rate": rate, **more}) + "\n")
