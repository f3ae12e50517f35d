"""Allow one demo at a time, because two would change the same rows."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from library.demo.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def only_one(directory: Path) -> Iterator[int]:
    """Hold the directory's lock and yield its descriptor.

    The worker inherits the descriptor: a worker that outlived a killed demo still holds
    the lock, and the next demo says so instead of sharing its work with a stranger.
    """
    with (directory / "demo.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise DemoFailed(
                f"Another demo, or the worker it left, still runs in {directory}: {file.read()}"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield file.fileno()
