"""A worker process, as its supervisor has it, and the line between the two.

The process is started by the command line of the supervisor, and not forked: it inherits no thread, lock or
connection, and it has the code of the moment. A variable of its environment tells it that it has a supervisor. The
line is a pair of sockets: each side notices at once when the other one has ended, however it ended.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

from django_mq.engine.decisions.session import STANDING_SECONDS
from django_mq.supervisor.probes import ProbeState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The variable: the number of the process, and the file descriptor of its end of the line.
VARIABLE = "DJANGO_MQ_WORKER_PROCESS"


class Report(Enum):
    """What a worker process tells its supervisor, about once a second."""

    #: Its loops turn, and it does not claim: it starts or ends.
    LIVE = b"l"
    #: It claims.
    READY = b"r"
    #: A loop stands still.
    STANDS = b"s"
    #: It has reached a limit, and ends in order: another process can start.
    LIMIT = b"e"


class SupervisorLine:
    """The worker's end of the line."""

    def __init__(self, number: int, line: socket.socket) -> None:
        self.number = number
        self._line = line
        line.setblocking(False)

    @classmethod
    def take(cls) -> SupervisorLine | None:
        """Return the line of this process, None if it has no supervisor.

        No process that this one starts gets the line.
        """
        number, _, descriptor = os.environ.pop(VARIABLE, "").partition(":")
        if not descriptor:
            return None
        line = socket.socket(fileno=int(descriptor))
        line.set_inheritable(False)
        return cls(int(number), line)

    def report(self, report: Report) -> None:
        """Tell the supervisor, unless it does not read."""
        with suppress(OSError):
            self._line.send(report.value)

    @property
    def is_cut(self) -> bool:
        """Whether the supervisor has ended."""
        try:
            return self._line.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class WorkerProcess:
    """One worker process."""

    def __init__(self, number: int, command: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        """Start it. Raises OSError."""
        self.number = number
        self.started_at = time.monotonic()
        #: Whether it was ready at any time, and whether it ends because of a limit.
        self.was_ready = self.has_reached_limit = False
        # How many signals it was sent, and when to kill it.
        self._signals, self._kill_at = 0, float("inf")
        self._report, self._reported_at = Report.LIVE, self.started_at
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
                command,
                env={**environment, VARIABLE: f"{number}:{theirs.fileno()}"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # Ctrl-C goes to the supervisor alone, which passes it on.
                start_new_session=True,
            )
        except OSError:
            self._line.close()
            raise
        finally:
            theirs.close()

    @property
    def age_seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self.started_at

    @property
    def health(self) -> ProbeState:
        """Its health: what it reported last, if that is not too long ago."""
        stands = self._report is Report.STANDS or time.monotonic() - self._reported_at >= STANDING_SECONDS
        return ProbeState(live=not stands, ready=self._report is Report.READY and not stands)

    def read_reports(self) -> None:
        """Read what it has told."""
        with suppress(OSError):  # nothing new, or it has ended
            for byte in self._line.recv(4096):
                report = Report(bytes([byte]))
                self.has_reached_limit = self.has_reached_limit or report is Report.LIMIT
                self.was_ready = self.was_ready or report is Report.READY
                if report is not Report.LIMIT:
                    self._report, self._reported_at = report, time.monotonic()

    def end(self, *, at_once: bool, within_seconds: float) -> None:
        """Tell it to end; it is to be killed if it still runs then."""
        # Two signals of one kind may arrive as one.
        signals = (signal.SIGTERM, signal.SIGINT)[: 2 if at_once else 1]
        for number in signals[self._signals :]:
            self._process.send_signal(number)
        self._signals = max(self._signals, len(signals))
        self.expect_end(within_seconds)

    def expect_end(self, within_seconds: float) -> None:
        """Note that it ends; it is to be killed if it still runs then."""
        self._kill_at = min(self._kill_at, time.monotonic() + within_seconds)

    @property
    def is_overdue(self) -> bool:
        """Whether it is to be killed."""
        return time.monotonic() >= self._kill_at

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._kill_at = float("inf")

    def exit_code(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self.read_reports()
        return code

    def close(self) -> None:
        """Close the line, after its end."""
        self._line.close()

    def __str__(self) -> str:
        return f"Process {self._process.pid}, number {self.number},"


def command_line() -> list[str]:
    """Return the command line of this process."""
    return [sys.executable, *sys.orig_argv[1:]]
