"""Keep a number of worker processes: start, replace and end them.

The supervisor has one thread. It imports no handlers and opens no database: it goes on while these are away.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.decisions.processes import STEADY_SECONDS, restart_pause_seconds
from django_mq.supervisor.child import WorkerProcess
from django_mq.supervisor.monitor import BROKER_AWAY, KILL_SECONDS, LEFT_EARLY
from django_mq.supervisor.probes import ProbeState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from django_mq.supervisor.probes import Probes

logger = logging.getLogger("django_mq.supervisor")

#: Time between two rounds, in seconds, unless a signal comes.
ROUND_SECONDS: Final = 0.25
#: A supervisor that has made no round for so long, in seconds, does not work.
STILL_SECONDS: Final = 10.0
#: What a process that was told to end has done, as an exit code. A signal that comes before Python handles it ends
#: a process that has not begun.
AT_THE_END: Final = {-signal.SIGKILL: LEFT_EARLY, -signal.SIGTERM: 0, -signal.SIGINT: 0}


@dataclass(slots=True)
class Place:
    """The place of one worker process."""

    number: int
    process: WorkerProcess | None = None
    #: The process that takes over when it is ready, during a restart of all.
    successor: WorkerProcess | None = None
    #: How many processes in a row ended too soon, and when the next one starts.
    ended_too_soon: int = 0
    start_at: float = 0.0
    #: Whether its process has found all queues empty, and no other one is needed.
    is_done: bool = False

    def plan(self, *, too_soon: bool) -> float:
        """Plan the start of the next process; return in how many seconds."""
        self.ended_too_soon = self.ended_too_soon + 1 if too_soon else 0
        pause = restart_pause_seconds(self.ended_too_soon)
        self.process, self.start_at = None, time.monotonic() + pause
        return pause


class Supervisor:
    """Keeps worker processes, each started by the same command line."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        processes: int,
        stop_seconds: float,
        until_empty: bool,
        exit_codes: Mapping[int, str],
    ) -> None:
        """Prepare so many processes. ``exit_codes`` has the meaning of each, for the log."""
        self._command = command
        self._stop_seconds = stop_seconds
        self._until_empty = until_empty
        self._exit_codes = exit_codes
        self._places = [Place(number + 1) for number in range(processes)]
        # Processes that end in order, while another one may have their place.
        self._leaving: list[WorkerProcess] = []
        # Processes that were started before this moment are restarted, one after the other.
        self._restart_before = float("-inf")
        # How many signals to end have come, and how many were passed on.
        self._signals = self._passed_on = 0
        # Whether a process was ever ready.
        self._was_ready = False
        self._code = 0
        self._turned_at = time.monotonic()

    @property
    def health(self) -> ProbeState:
        """Live if this process and each worker process works; ready if each worker process claims."""
        turns = time.monotonic() - self._turned_at < STILL_SECONDS
        healths = [place.process.health for place in self._places if place.process is not None]
        return ProbeState(
            live=turns and all(health.live for health in healths),
            ready=turns and len(healths) == len(self._places) and all(health.ready for health in healths),
        )

    def run(self, probes: Probes) -> int:
        """Work until a signal says to end, or all is empty.

        Return the exit code: the least of those of the last processes that is not 0, or 0.
        """
        with self._woken_by_signals() as woken:
            while self._is_needed:
                self._turned_at = time.monotonic()
                self._pass_signals_on()
                self._read_reports()
                self._note_ends()
                if not self._ends:
                    self._start_due()
                    self._restart_next()
                self._kill_overdue()
                probes.show()
                if select.select([woken], [], [], ROUND_SECONDS)[0]:
                    woken.recv(4096)
        return self._code

    @property
    def _ends(self) -> bool:
        return bool(self._signals or self._code)

    @property
    def _is_needed(self) -> bool:
        is_over = self._passed_on or self._code or all(place.is_done for place in self._places)
        return not is_over or bool(self._processes())

    def _processes(self) -> list[WorkerProcess]:
        """Return all processes that run."""
        placed = [process for place in self._places for process in (place.process, place.successor)]
        return [*(process for process in placed if process is not None), *self._leaving]

    # Signals. Their handlers only take notes: they may come at any moment.

    @contextmanager
    def _woken_by_signals(self) -> Iterator[socket.socket]:
        """Handle signals; yield a socket that can be read when one has come."""
        handlers: dict[int, Callable[[int, Any], object]] = {
            signal.SIGTERM: self._on_end,
            signal.SIGINT: self._on_end,
            signal.SIGCHLD: lambda *_: None,
        }
        if not os.isatty(0):  # a terminal sends it when it is closed
            handlers[signal.SIGHUP] = self._on_restart
        woken, waking = socket.socketpair()
        with woken, waking:
            waking.setblocking(False)
            former_wakeup = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
            former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
            try:
                yield woken
            finally:
                for number, handler in former.items():
                    signal.signal(number, handler)
                signal.set_wakeup_fd(former_wakeup)

    def _on_end(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            signal.signal(number, signal.SIG_DFL)

    def _on_restart(self, _number: int, _frame: object) -> None:
        self._restart_before = time.monotonic()

    def _pass_signals_on(self) -> None:
        if self._signals > self._passed_on:
            self._passed_on = self._signals
            at_once = self._signals > 1
            logger.info("Ending all processes%s", " at once" if at_once else ": a second signal ends them at once")
            self._end_all(at_once=at_once)

    def _end_all(self, *, at_once: bool) -> None:
        seconds = KILL_SECONDS if at_once else self._stop_seconds + KILL_SECONDS
        for process in self._processes():
            process.end(at_once=at_once, within_seconds=seconds)

    # Rounds.

    def _read_reports(self) -> None:
        for process in self._processes():
            process.read_reports()
            self._was_ready = self._was_ready or process.was_ready
        for place in self._places:
            if place.process is not None and place.process.has_reached_limit:
                place.process.expect_end(self._stop_seconds + KILL_SECONDS)
                self._leaving.append(place.process)
                place.plan(too_soon=not place.process.was_ready)

    def _start_due(self) -> None:
        for place in self._places:
            if place.process is None and not place.is_done and time.monotonic() >= place.start_at:
                # A successor that starts already has the newer code.
                place.process, place.successor = place.successor or self._start(place), None

    def _start(self, place: Place) -> WorkerProcess | None:
        try:
            return WorkerProcess(place.number, self._command)
        except OSError as error:
            seconds = place.plan(too_soon=True) if place.process is None else ROUND_SECONDS
            logger.error("No process can be started, trying again in %g s: %s", seconds, error)  # noqa: TRY400
            return None

    def _restart_next(self) -> None:
        """Start a successor for one process with old code, and end that process when the successor is ready."""
        for place in self._places:
            process, successor = place.process, place.successor
            if process is None or process.started_at >= self._restart_before:
                continue
            if successor is None:
                place.successor = self._start(place)
            if successor is None or not successor.was_ready:
                return
            place.process, place.successor = successor, None
            self._leaving.append(process)
            process.end(at_once=False, within_seconds=self._stop_seconds + KILL_SECONDS)
            logger.info("%s takes over from %s", successor, process)

    def _kill_overdue(self) -> None:
        for process in self._processes():
            if process.is_overdue:
                process.kill()
                logger.error(
                    "%s has not ended in time, and is killed: its messages come back by the lease", process
                )

    # Ends.

    def _note_ends(self) -> None:
        for process in self._processes():
            code = process.exit_code()
            if code is None:
                continue
            process.close()
            self._was_ready = self._was_ready or process.was_ready
            next_step = self._leave(process, code)
            if self._ends and (found := AT_THE_END.get(code, max(code, 0))):
                self._code = min(self._code or found, found)
            level = logging.WARNING if code and not self._ends else logging.INFO
            logger.log(level, "%s has ended with %s%s", process, self._named(code), next_step)

    def _leave(self, process: WorkerProcess, code: int) -> str:
        """Free the place of a process that has ended; return what is done, as the end of a sentence."""
        if process in self._leaving:
            self._leaving.remove(process)
            return ""
        place = next(place for place in self._places if process in (place.process, place.successor))
        if process is place.successor:
            place.successor, self._restart_before = None, float("-inf")
            return ", before it was ready: the other processes go on with the code that they have"
        place.process = None
        if self._ends:
            return ""
        if self._until_empty and code in (0, BROKER_AWAY) and not process.has_reached_limit:
            place.is_done, self._code = True, self._code or code
            return ""
        if code > 0 and not self._was_ready:
            self._code = code
            self._end_all(at_once=False)
            return ", and none was ever ready: the supervisor ends"
        too_soon = process.age_seconds < STEADY_SECONDS and not process.has_reached_limit
        pause = place.plan(too_soon=too_soon)
        return f"; another one starts in {pause:g} s" if pause else "; another one starts"

    def _named(self, code: int) -> str:
        if code < 0:
            with suppress(ValueError):
                return signal.Signals(-code).name
        meaning = self._exit_codes.get(code)
        return f"exit code {code}" + (f" ({meaning})" if meaning else "")
