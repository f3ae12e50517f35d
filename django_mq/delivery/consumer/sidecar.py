"""The worker's end of its sidecar, a process that renews the session while the heartbeat cannot run.

C code that holds the interpreter's lock stops every thread of a process: only another process can renew then. The
heartbeat writes to it regularly, through a pipe. ``sidecar_process.py`` is the other end.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.db import connections

from django_mq import conf
from django_mq.errors import ConfigurationError

logger = logging.getLogger("django_mq.delivery")

MODULE = "django_mq.delivery.consumer.sidecar_process"
#: How often in a deadline the heartbeat writes to the pipe, at most.
BEATS = 16
#: Time that the process has to end by itself, in seconds; then it is killed, which does no harm.
ENDING_SECONDS = 0.5


class Sidecar:
    """Starts the process, tells it that the worker lives, and ends it. Only the constructor raises."""

    def __init__(self, alias: str) -> None:
        """Prepare a sidecar for the sessions of an alias. Raises ConfigurationError."""
        self._order = _order(alias)
        self._beat_seconds = conf.load().SESSION_SECONDS / BEATS
        self._restart_seconds = conf.load().SESSION_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._session_id = 0
        self._started_at = self._beat_at = 0.0

    def start(self, session_id: int) -> None:
        """Start the process for a session."""
        self._session_id, self._started_at = session_id, time.monotonic()
        order = json.dumps(self._order | {"session": session_id}).encode() + b"\n"
        try:
            self._process = start(MODULE, stdin=subprocess.PIPE, bufsize=0)
            pipe = self._process.stdin
            if pipe is not None:
                os.write(pipe.fileno(), order)
                os.set_blocking(pipe.fileno(), False)  # what does not read must not stop the heartbeat
        except (OSError, ValueError) as error:
            logger.error("The sidecar of session %s cannot be started: %s", session_id, error)  # noqa: TRY400
            self.close()

    def beat(self) -> None:
        """Say that the heartbeat runs; start the process again if it has ended."""
        now = time.monotonic()
        if now - self._beat_at < self._beat_seconds:
            return
        self._beat_at = now
        if not self._tell() and now - self._started_at > self._restart_seconds:
            logger.warning("The sidecar of session %s has ended, and is started again", self._session_id)
            self.close()
            self.start(self._session_id)

    def _tell(self) -> bool:
        """Write one byte, unless the pipe is full; return whether there is a process to read it."""
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            os.write(process.stdin.fileno(), b".")
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return False
        return True

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def abandon(self) -> None:
        """Leave the process to the parent, in a forked child: it ends when no process has the pipe open."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        disown(self._process)
        self._process = None


def _order(alias: str) -> dict[str, Any]:
    """Return what the process needs to renew sessions of an alias, for JSON. Raises ConfigurationError."""
    settings = conf.load()
    database = {name: value for name, value in connections.settings[alias].items() if name != "TEST"}
    try:
        database = json.loads(json.dumps(database, default=os.fspath))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "SIDECAR_SECONDS needs database settings that JSON can carry to another process;"
            f" DATABASES[{alias!r}] has others: {error}. Write text and numbers, or set SIDECAR_SECONDS to 0"
        ) from None
    return {
        "worker": os.getpid(),
        "database": database,
        "most_seconds": settings.SIDECAR_SECONDS,
        "settings": {
            "SESSION_SECONDS": settings.SESSION_SECONDS,
            "STATEMENT_TIMEOUT_SECONDS": settings.STATEMENT_TIMEOUT_SECONDS,
        },
    }


# Another process of Python, with the same modules, and without this one's signals.


def start(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``python -m`` with these arguments and the options of ``subprocess.Popen``. Raises OSError."""
    # The process's own path, which programs that embed Python may have changed.
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
        [_interpreter(), "-P", "-m", *arguments],
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        stdout=subprocess.DEVNULL,
        # Ctrl-C goes to the worker's group; the worker may go on for long after it.
        start_new_session=True,
        **options,
    )


def _interpreter() -> str:
    """Return the path of Python. Raises OSError where there is none.

    Where a program embeds Python, as uWSGI does, ``sys.executable`` is that program, or nothing.
    """
    if sys.executable and Path(sys.executable).name.startswith(("python", "pypy", "graalpy")):
        return sys.executable
    return f"{sys.exec_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"


def disown(process: subprocess.Popen[bytes] | None) -> None:
    """Make a forked child forget a process of its parent: it has nothing to wait for."""
    if process is not None:
        process.returncode = 0
