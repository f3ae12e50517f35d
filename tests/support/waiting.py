"""Wait for another process or thread: a condition with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

T = TypeVar("T")

#: Longest wait for anything; what takes longer on a busy machine is broken.
PATIENCE_SECONDS = 120.0
#: Time between two looks.
LOOK_SECONDS = 0.02


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], str] = "the condition",
    *,
    seconds: float = PATIENCE_SECONDS,
) -> T:
    """Return the condition's first true value. Fails, saying what was waited for, when none comes in time."""
    deadline = time.monotonic() + seconds
    over = False
    while not (value := condition()):
        if over:
            story = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {seconds:g} s in vain for {story}")
        time.sleep(LOOK_SECONDS)
        # Asked before the look: a machine that was suspended gets one more.
        over = time.monotonic() > deadline
    return value


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read what a process prints up to the line with a text, and return it. Fails if the process ends before."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"The process ended before it printed {text!r}:\n{seen}")
