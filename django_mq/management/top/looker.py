"""The thread that looks, so that keys are answered while the database is slow or silent."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.management.top.look import Look, Watch


class Looker:
    """Looks every ``interval`` seconds over one connection, and hands over each look or the exception."""

    def __init__(
        self, watch: Watch, interval: float, hand_over: Callable[[Looker, Look | Exception], object]
    ) -> None:
        self._watch = watch
        self._interval = interval
        self._hand_over = hand_over
        self._wake = threading.Event()
        self._ended = False
        self._paused = False
        self._began: float | None = None
        #: Whether to look at what runs, too.
        self.running = False

    def start(self) -> None:
        # A daemon: a driver that waits for a silent server cannot be interrupted.
        threading.Thread(target=self._run, name="django_mq-top", daemon=True).start()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def pause(self, *, paused: bool) -> None:
        """Look no more, or again, beginning now."""
        self._paused = paused
        self._wake.set()

    def look_now(self) -> None:
        """Look now, unless paused."""
        self._wake.set()

    @property
    def silent_seconds(self) -> float:
        """Return since when the database has not answered the present look; 0 between looks."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _run(self) -> None:
        try:
            while not self._ended:
                if not self._paused:
                    self._hand_over(self, self._look())
                self._wake.wait(None if self._paused else self._interval)
                self._wake.clear()
        finally:
            connections[self._watch.alias].close()

    def _look(self) -> Look | Exception:
        self._began = time.monotonic()
        try:
            return self._watch.look(running=self.running)
        except Exception as error:  # noqa: BLE001 - the command raises it
            return error
        finally:
            self._began = None
