"""One worker process that a program of another kind has beside it: it ends with the program."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.processes import STEADY_SECONDS, restart_pause_seconds
from django_mq.supervisor.child import WorkerProcess
from django_mq.supervisor.monitor import KILL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

logger = logging.getLogger("django_mq.supervisor")

#: Time between two looks at the process, in seconds.
LOOK_SECONDS: Final = 0.25


class Companion:
    """Starts the process, and another one when it ends by itself."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Prepare a process of this command line, which is one of ``mq_worker``."""
        self._command = command
        self._environment = environment
        self._process: WorkerProcess | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="django_mq-companion", daemon=True)

    def start(self) -> None:
        """Start the process."""
        self._thread.start()

    def stop(self, *, is_urgent: Callable[[], bool]) -> None:
        """End the process and wait for it; when the end ``is_urgent``, it gives back what it handles."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        process = self._process
        while process is not None and process.exit_code() is None:
            at_once = is_urgent()
            process.end(at_once=at_once, within_seconds=KILL_SECONDS if at_once else float("inf"))
            if process.is_overdue:
                process.kill()
            time.sleep(LOOK_SECONDS)
        if process is not None:
            process.close()

    def _keep(self) -> None:
        ends_too_soon = 0
        while not self._ending.wait(restart_pause_seconds(ends_too_soon)):
            try:
                process = self._process = WorkerProcess(1, self._command, self._environment)
            except OSError as error:
                logger.error("The process beside this one cannot be started: %s", error)  # noqa: TRY400
                ends_too_soon += 1
                continue
            while (code := process.exit_code()) is None:
                if self._ending.wait(LOOK_SECONDS):
                    return
                process.read_reports()
            ends_too_soon = ends_too_soon + 1 if process.age_seconds < STEADY_SECONDS else 0
            pause = restart_pause_seconds(ends_too_soon)
            logger.error("%s has ended with exit code %s; another one starts in %.0f s", process, code, pause)
            process.close()
            self._process = None
