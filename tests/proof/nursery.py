"""Forks the processes of a place: a program that has imported all they need, and has connected to nothing.

    python -m tests.proof.nursery FD

One order a line comes in over the socket ``FD``, one process id a line goes out. When the
socket closes, every child dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any

import django
import psutil

if TYPE_CHECKING:
    from typing import NoReturn


def main(descriptor: int) -> None:
    """Fork a child for every order, until no process is left to give one."""
    django.setup()
    from tests.proof import roles  # noqa: F401 - imported once, for all children

    # No process asks how a killed child ended: its parent must not have to wait for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    children: list[psutil.Process] = []
    with socket.socket(fileno=descriptor) as line, line.makefile("rw", encoding="utf-8") as orders:
        try:
            for text in orders:
                child = _fork(json.loads(text), line)
                with contextlib.suppress(psutil.NoSuchProcess):
                    children.append(psutil.Process(child))
                orders.write(f"{child}\n")
                orders.flush()
        finally:
            for process in children:
                # Not by its number alone, which may belong to another program by now.
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def _fork(order: dict[str, Any], line: socket.socket) -> int:
    # A child that hears SIGTERM before it has forgotten what its parent does then would do that, too.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if not child:
        os.close(line.fileno())
        _live(order)
    return child


def _live(order: dict[str, Any]) -> NoReturn:
    """Play the role in the place that the order names; leave nothing to the parent's clean-up."""
    code = 1
    try:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)

        from tests.proof.roles import play

        play(order)
        code = 0
    except BaseException:  # noqa: BLE001 - the log is all that is left of a child
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
