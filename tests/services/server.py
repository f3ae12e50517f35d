"""What PostgreSQL and Redis have in common: a directory, a process, and a way out that leaves neither."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import psutil

from tests.services.directory import Directory
from tests.services.processes import LOOK_SECONDS, tethered

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

#: Longest wait for a server to answer: a JVM that starts, a killed PostgreSQL that recovers, where much else runs.
START_SECONDS = 300.0
#: Longest wait for a clean stop before the server is killed.
STOP_SECONDS = 20.0


class UnavailableError(Exception):
    """The server's program is not installed here."""


def in_ci() -> bool:
    """Whether a missing server is a failure: in CI a skipped promise would look like a kept one."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


class Server(ABC):
    """One server with data of its own: ``start`` and ``stop`` keep the data, ``close`` removes it.

    Usable as a context manager. Raises UnavailableError when the program is missing. A server that is not
    durable keeps what was committed if its processes are killed, and not if the machine fails.
    """

    name: ClassVar[str]
    #: Stops the server in order, connections or not.
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    #: Ends the server when the process that started it dies.
    death_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable
        self._directory = Directory(self.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        atexit.register(self.close)

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the server listens; the same after a restart."""

    @abstractmethod
    def command_line(self) -> list[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server accepts a connection now."""

    def user(self) -> str:
        """Return the system user the server runs as, "-" for the current one."""
        return "-"

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the server and return when it answers."""
        if not self.running:
            self.begin()
            self.wait_until_it_answers()

    def begin(self) -> None:
        """Start the server, and do not wait: servers that need each other begin together."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                tethered(self.command_line(), death_signal=self.death_signal, user=self.user()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # Ctrl-C in a terminal must reach the tests, not the servers under them.
                start_new_session=True,
            )

    def wait_until_it_answers(self) -> None:
        """Return when a server that has begun answers."""
        deadline = time.monotonic() + START_SECONDS
        while self.running and time.monotonic() < deadline:
            if self.answers():
                return
            time.sleep(LOOK_SECONDS)
        self.kill()
        raise RuntimeError(f"{self.name} did not start; its log ends with:\n{self.log_end()}")

    def freeze(self) -> None:
        """Keep the server's connections open and its replies back, as a hung machine does."""
        own = psutil.Process(self.pid)
        own.suspend()  # first: it starts no further process while the list is read
        for child in own.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.suspend()

    def thaw(self) -> None:
        """Let a frozen server go on."""
        if not self.running:
            return
        own = psutil.Process(self.pid)
        for process in [*own.children(recursive=True), own]:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def stop(self) -> None:
        """Stop the server in order, frozen or not. Its data stay for the next ``start``."""
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the server as a power cut would: nothing is flushed, no client is told."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop in order and start again on the same address."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data."""
        if os.getpid() != self._owner:
            return  # a forked copy of the tests exits: the server is not its own
        atexit.unregister(self.close)
        self.stop()
        self._directory.remove()

    @property
    def directory(self) -> Path:
        """Holds all files of the server."""
        return self._directory.path

    @property
    def log(self) -> Path:
        """The file that holds all the server ever said."""
        return self.directory / "log"

    def log_end(self) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
