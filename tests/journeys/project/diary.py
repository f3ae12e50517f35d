"""What the tasks leave behind for the tests: a line per run, and gates they wait at."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

#: A task that waits longer for its gate fails: its test is over.
GATE_SECONDS = 600.0


def directory() -> Path:
    """Where the diary and the gates are; the test chose it."""
    return Path(os.environ["JOURNEY_DIRECTORY"])


def write(**line: Any) -> None:
    """Add a line. One write in append mode: the lines of two processes never mix."""
    text = json.dumps({"pid": os.getpid(), "at": time.time(), **line}) + "\n"
    with (directory() / "diary").open("a") as diary:
        diary.write(text)


def wait_at(gate: str) -> None:
    """Return when the test has opened the gate."""
    deadline = time.monotonic() + GATE_SECONDS
    while not (directory() / gate).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{gate} was not opened")
        time.sleep(0.01)
