"""Runs a program that dies with the process that started it.

    python -I -S tether.py PARENT SIGNAL USER PROGRAM [ARGUMENT ...]

It asks Linux to send SIGNAL as soon as the parent is gone, however it went, becomes USER
("-" for no change) and turns into the program. Elsewhere only ``atexit`` guards the servers.

A script of its own, because ``preexec_fn`` is unsafe (and warns) in a process with
threads. Linux watches the *thread* that started us: start servers from a lasting one.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1


def become(user: str) -> None:
    """Give up root for the named user."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def main(parent: int, signum: int, user: str, command: list[str]) -> None:
    """Tie this process to its parent and turn into the command."""
    if user != "-":
        become(user)
    if sys.platform == "linux":
        # After the change of user, which clears the request.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
        if os.getppid() != parent:
            sys.exit("tether: the parent died before it could be watched")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(126 if isinstance(error, PermissionError) else 127)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
