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

from django.apps import apps
from django.conf import settings

from django_mq.delivery import child
from django_mq.engine.lease import STALLED_SECONDS

logger = logging.getLogger("django_mq.delivery")


class TakeOver:
    """Has one other process at a time go on with the operations of a database that have stalled."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._process: subprocess.Popen[bytes] | None = None
        self._next_at = 0.0

    def begin(self) -> None:
        """Start the process, unless one runs, or one was started within STALLED_SECONDS."""
        if self._is_running() or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + STALLED_SECONDS
        module = settings.SETTINGS_MODULE
        if not module or not apps.is_installed("django.contrib.admin"):
            logger.error(
                "An operation of the admin has stalled, and the settings of this process have no module, or no"
                " admin: run manage.py mq_operations --take-over with the settings of the site"
            )
            return
        try:
            self._process = child.start(
                *("django", "mq_operations", "--take-over", "--database", self._alias),
                environment={"DJANGO_SETTINGS_MODULE": module},
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            logger.error("No process can go on with the operation that has stalled: %s", error)  # noqa: TRY400
            return
        logger.warning("An operation of the admin has stalled: process %s goes on with it", self._process.pid)

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """Have the process end after its batch."""
        if self._process is not None and self._is_running():
            self._process.terminate()

    def abandon(self) -> None:
        """Leave the process to the parent, in a forked child."""
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # it is no child of this process: nothing to wait for
