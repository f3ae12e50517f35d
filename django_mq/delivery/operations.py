"""Operations in the background: go on with one that has stalled.

The maintenance leader has another process go on, ``mq_operations --take-over``. A process shares nothing with the
handlers: neither their slots, nor the lock of the interpreter, nor connections that a fork would carry over. If it
hangs, neither the heartbeat nor the maintenance waits. No message tells it what to do: the row of the operation
does, and says on behalf of which user.
"""

from __future__ import annotations

import logging
import subprocess
import time
from typing import TYPE_CHECKING, Final

from django.apps import apps
from django.conf import settings

from django_mq.delivery import sidecar
from django_mq.engine.lease import STALLED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("django_mq.delivery")

#: The longest time until the next process where each one fails, in seconds.
LONGEST_PAUSE_SECONDS: Final = 600.0


class TakeOver:
    """Has one other process at a time go on with the operations of a database that have stalled."""

    def __init__(self, alias: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._alias = alias
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_seconds = STALLED_SECONDS
        self._next_at = 0.0

    def begin(self) -> None:
        """Start the process, unless one runs, or one was started within STALLED_SECONDS, or has failed lately."""
        self.look_after()
        if self._process is not None or self._clock() < self._next_at:
            return
        self._next_at = self._clock() + STALLED_SECONDS
        module = settings.SETTINGS_MODULE
        if not module or not apps.is_installed("django.contrib.admin"):
            self._postpone(
                "the settings of this process have no module, or no admin: run manage.py mq_operations --take-over"
                " with the settings of the site"
            )
            return
        try:
            self._process = sidecar.start(
                *("django", "mq_operations", "--take-over", "--skip-checks", "--database", self._alias),
                environment={"DJANGO_SETTINGS_MODULE": module},
                stdin=subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            self._postpone(f"no process can be started: {error}")
            return
        logger.warning("An operation of the admin has stalled: process %s goes on with it", self._process.pid)

    def look_after(self) -> None:
        """Notice that the process has ended."""
        status = None if self._process is None else self._process.poll()
        if self._process is None or status is None:
            return
        pid, self._process = self._process.pid, None
        if status == 0:
            self._pause_seconds = STALLED_SECONDS
        else:
            self._postpone(f"process {pid} has ended with exit code {status}; its standard error says why")

    def _postpone(self, reason: str) -> None:
        """Begin again later each time: what fails now will most likely fail in a minute."""
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        self._next_at = self._clock() + self._pause_seconds
        logger.error("An operation of the admin has stalled, and %s", reason)

    def close(self) -> None:
        """Have the process end after its batch."""
        self.look_after()
        if self._process is not None:
            self._process.terminate()

    def abandon(self) -> None:
        """Leave the process to the parent, in a forked child."""
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # it is no child of this process: nothing to wait for
