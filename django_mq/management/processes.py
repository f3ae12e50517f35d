"""The options of ``mq_worker`` that are about its processes, and what they do."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.engine.decisions.processes import ProcessLimits
from django_mq.errors import MQError
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import UsageError, argument, at_least_one, more_than_zero, port
from django_mq.supervisor.child import SupervisorLine, command_line
from django_mq.supervisor.monitor import Monitor, health_of
from django_mq.supervisor.probes import Probes
from django_mq.supervisor.reload import giving_back_at_exit, is_reloaded, run_with_reloader
from django_mq.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.delivery.consumer.worker import Workers
    from django_mq.management.command import MQCommand
    from django_mq.supervisor.probes import ProbeState

#: The name that a command line has to have to be started again.
COMMAND = "mq_worker"
#: How long a worker process with a supervisor waits for running handlers when it ends, in seconds.
STOP_SECONDS = 30.0

ARGUMENTS = (
    argument(
        "--processes",
        type=at_least_one,
        metavar="N",
        help="Run so many worker processes, and start another one when one ends. Without it, this process works.",
    ),
    argument(
        "--max-messages",
        type=at_least_one,
        metavar="N",
        help="End in order after so many messages. With --processes, another process starts.",
    ),
    argument("--max-seconds", type=more_than_zero, metavar="SECONDS", help="The same, after so long."),
    argument(
        "--max-megabytes",
        type=at_least_one,
        metavar="N",
        help="The same, when the process uses so much memory.",
    ),
    argument(
        "--stop-seconds",
        type=more_than_zero,
        metavar="SECONDS",
        help="How long to wait for running handlers at the end, before their messages are given back; "
        f"default: without a limit, and {PLAIN.digits(STOP_SECONDS)} with --processes.",
    ),
    argument("--reload", action="store_true", help="Start again when the code changes, for development."),
    argument(
        "--probe-directory",
        metavar="DIR",
        help="Keep the files 'live' and 'ready' in this directory fresh, for probes of a service manager.",
    ),
    argument("--probe-port", type=port, metavar="PORT", help="Answer GET /live and /ready on this port."),
)


def run_processes(
    command: MQCommand, options: dict[str, Any], work: Callable[[SupervisorLine | None], None]
) -> None:
    """Do the work in this process, in one that is started again when its code changes, or in several.

    ``work`` gets the line to the supervisor of this process, if it has one.
    """
    line = SupervisorLine.take()
    if options["reload"] and options["processes"]:
        raise UsageError("--reload is for development, with one process: leave out --processes.")
    if line is None and (options["reload"] or options["processes"]) and COMMAND not in command_line():
        raise CommandError(
            "--processes and --reload start the command line of this program again, and call_command has none: run"
            " manage.py mq_worker."
        )
    if options["processes"] and line is None:
        _supervise(command, options)
    elif options["reload"]:
        run_with_reloader(lambda: _work_until_changed(command, work))
    else:
        work(line)


def _supervise(command: MQCommand, options: dict[str, Any]) -> None:
    supervisor = Supervisor(
        command_line(),
        processes=options["processes"],
        stop_seconds=options["stop_seconds"] or STOP_SECONDS,
        until_empty=options["until_empty"],
        exit_codes={**command.EXIT_CODES, **command.exit_codes},
    )
    with _opened(lambda: supervisor.health, options) as probes:
        command.stdout.write(f"Starting {plural(options['processes'], 'worker')}, each in a process of its own.")
        command.stdout.flush()
        code = supervisor.run(probes)
    if code:
        raise SystemExit(code)
    command.stdout.write("Ended.")


def _work_until_changed(command: MQCommand, work: Callable[[SupervisorLine | None], None]) -> None:
    """Work; print an error that the next change of the code may mend."""
    try:
        work(None)
    except (MQError, CommandError) as error:
        command.stderr.write(f"{error}\nThe worker starts again when the code changes.")


def monitor_of(options: dict[str, Any], line: SupervisorLine | None) -> Monitor:
    """Return the monitor of this process, by the options."""
    limits = ProcessLimits(
        messages=options["max_messages"], seconds=options["max_seconds"], megabytes=options["max_megabytes"]
    )
    if line is None:
        return Monitor(limits, stop_seconds=options["stop_seconds"])
    return Monitor(limits.spread(line.number), stop_seconds=options["stop_seconds"] or STOP_SECONDS, line=line)


@contextmanager
def watching(monitor: Monitor, workers: Workers, options: dict[str, Any]) -> Iterator[None]:
    """Watch the workers of this process, and show their health. Raises CommandError and ConfigurationError."""
    monitor.check()
    with ExitStack() as stack:
        probes = None
        if monitor.line is None:
            probes = stack.enter_context(_opened(lambda: health_of(workers), options))
        if is_reloaded():
            stack.enter_context(giving_back_at_exit(workers))
        monitor.start(workers, probes)
        try:
            yield
        finally:
            monitor.close()


@contextmanager
def _opened(health: Callable[[], ProbeState], options: dict[str, Any]) -> Iterator[Probes]:
    """Show a health. Raises CommandError."""
    try:
        probes = Probes(health, directory=options["probe_directory"], port=options["probe_port"])
    except OSError as error:
        raise CommandError(f"The probes cannot be shown: {error}. Choose another directory or port.") from None
    with closing(probes):
        yield probes


def show_log() -> None:
    """Log to the terminal if the project has not configured logging."""
    logger = logging.getLogger("django_mq")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
