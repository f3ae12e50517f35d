"""Processes of the demo, in groups of their own, which Ctrl-C does not reach: the demo ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

#: Longest wait for an orderly end before the group is killed.
STOP_SECONDS = 15.0


class Child:
    """One Python process of the demo, with its log; its descendants end with it."""

    def __init__(
        self, arguments: list[str], log: Path, *, inherited: tuple[int, ...] = (), **environment: str
    ) -> None:
        self.arguments = arguments
        self.log = log
        self._inherited = inherited
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; its output goes to the end of the log."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.arguments],
                cwd=settings.BASE_DIR,
                env=os.environ | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=self._inherited,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        """Stop the process, and kill it if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process and its descendants, as a power cut would."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def log_end(self, lines: int = 15) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
