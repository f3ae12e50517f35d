"""One ``celery worker``, as an operator starts it, with its log and its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.services.processes import tethered, wait_until_gone
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from celery import Celery

#: How long one question of remote control waits for its answer.
ANSWER_SECONDS = 15.0


class Worker:
    """A worker process; leaving the context stops it, however it is by then."""

    #: The module of the project's Celery app.
    app = "tests.journeys.project.app"

    def __init__(self, environment: dict[str, str], directory: Path, name: str, options: tuple[str, ...]) -> None:
        self.name = f"{name}@journey"
        self._environment = environment
        self._log = directory / f"{name}.log"
        self._log_start = 0
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._children: list[psutil.Process] = []

    def start(self) -> None:
        """Start without waiting."""
        # Not ``-m celery``, of which Celery does not know when it starts a worker again for SIGHUP.
        command = [sys.executable, str(Path(sys.executable).with_name("celery")), "-A", self.app, "worker"]
        options = ["--loglevel", "info", "--hostname", self.name, *self._options]
        with self._log.open("ab") as log:
            # A worker before this one may have had the same name, and its "ready" says nothing of this one.
            self._log_start = log.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                tethered([*command, *options], death_signal=signal.SIGKILL),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until_ready(self) -> None:
        """Return when it consumes."""
        wait_until(lambda: f"{self.name} ready." in self.log or not self.running, self._story("to be ready"))
        assert self.running, self._story("to be ready")()

    def _story(self, what: str) -> Callable[[], str]:
        return lambda: f"{self.name} {what}; its log:\n{self.log[-6000:]}"

    @property
    def log(self) -> str:
        """All it has said since it was started."""
        return self._log.read_bytes()[self._log_start :].decode(errors="replace") if self._log.exists() else ""

    @property
    def process(self) -> psutil.Process:
        """The main process."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    @property
    def running(self) -> bool:
        """Whether the main process lives."""
        return self._process is not None and self._process.poll() is None

    def ask(self, question: str, app: Celery) -> Any:
        """Return the worker's answer to ``celery inspect QUESTION``."""
        # Remote control promises no delivery: what was not answered is asked again.
        inspect = app.control.inspect([self.name], timeout=ANSWER_SECONDS, limit=1)
        return wait_until(getattr(inspect, question), self._story(f"to answer {question}"))[self.name]

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal to the main process."""
        assert self._process is not None
        self._process.send_signal(signum)

    def wait(self) -> int:
        """Return the exit code when it has ended."""
        assert self._process is not None
        wait_until(lambda: not self.running, self._story("to end"))
        return self._process.wait()

    def stop(self) -> int:
        """Shut down warmly; return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kill every process of it, as the end of a container does."""
        if self._process is None:
            return
        try:
            processes = [self.process, *self.process.children(recursive=True)]
        except psutil.NoSuchProcess:
            processes = []
        for process in processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        wait_until_gone(processes)

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
