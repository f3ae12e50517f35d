"""Wraps a command: ``python -m tests.services [--only SERVER] -- COMMAND [ARGUMENT ...]``.

Starts PostgreSQL and Redis, sets DATABASE_URL and REDIS_URL for the command (a variable that is
set already stays, and its server is not started), passes signals on, stops the servers
and exits with the command's code. MariaDB and RabbitMQ are started if named: few commands want them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

from tests.services.environment import SERVERS, USUAL, Services
from tests.services.processes import tethered
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return ``only`` and ``command``."""
    parser = argparse.ArgumentParser(prog="python -m tests.services", description=__doc__)
    parser.add_argument("--only", choices=sorted(SERVERS), help="start this server only")
    parser.add_argument("command", nargs="+", help="the command to run, after --")
    return parser.parse_args(arguments)


def on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Let the handler see every signal that would end this process."""
    for signum in PASSED_ON:
        signal.signal(signum, handler)


def give_up(signum: int, frame: FrameType | None) -> NoReturn:
    """Leave while the servers start; the way out stops them."""
    sys.exit(128 + signum)


def terminal_told_everyone(signum: int) -> bool:
    """Return whether this is Ctrl-C, which the command got too: twice is a cold shutdown for Celery."""
    try:
        return signum == signal.SIGINT and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False  # no terminal at all


def run(command: list[str], environment: dict[str, str]) -> int:
    """Run the command to its end and return its exit code as a shell would."""
    process = subprocess.Popen(tethered(command, death_signal=signal.SIGTERM), env=environment)

    def pass_on(signum: int, frame: FrameType | None) -> None:
        if not terminal_told_everyone(signum):
            process.send_signal(signum)

    on_signals(pass_on)
    code = process.wait()
    on_signals(signal.SIG_IGN)  # only the servers' end is left, and it is short
    return code if code >= 0 else 128 - code


def main() -> int:
    """Start, run, stop."""
    arguments = parse(sys.argv[1:])
    names = [arguments.only] if arguments.only else list(USUAL)
    on_signals(give_up)
    try:
        with Services() as services:
            return run(arguments.command, services.environment(names))
    except UnavailableError as missing:
        sys.stderr.write(f"{missing}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
