"""Starting a process that cannot outlive us, and seeing that one is gone."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import signal

#: Time between two looks at a process or a server that is coming or going.
LOOK_SECONDS = 0.02
#: Longest wait for a killed process to be gone.
GONE_SECONDS = 120.0


def tethered(command: list[str], *, death_signal: signal.Signals, user: str = "-") -> list[str]:
    """Return the command line under which a program dies with this process."""
    tether = Path(__file__).with_name("tether.py")
    return [sys.executable, "-I", "-S", str(tether), str(os.getpid()), str(int(death_signal)), user, *command]


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Wait for killed processes that are not our children, and so cannot be reaped by us.

    A zombie counts as gone: not every container has an init that reaps.
    """
    deadline = time.monotonic() + GONE_SECONDS
    while any(alive(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def alive(process: psutil.Process) -> bool:
    """Return whether the process still runs."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
