"""The duties of extensions, in a thread of their own: a heartbeat cannot wait for the code of others."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from django.db import connections

from django_mq.delivery.consumer.duties import announce_after, run_duty, unfinished
from django_mq.errors import StoreError
from django_mq.stores.connections import lock_against_forks
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.seams.extension import Duty

logger = logging.getLogger("django_mq.delivery")

#: The pause between two batches of a duty.
PAUSE_SECONDS = 0.1
#: The log names duties that take longer.
LONG_SECONDS = 60.0


class Background:
    """Runs duties in a thread, one after the other."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._thread: threading.Thread | None = None
        self._name_at = 0.0
        self._running = ""
        self._stopping = threading.Event()
        self._works = lock_against_forks()

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, duties: Sequence[Duty]) -> bool:
        """Begin these duties, unless earlier ones still run; return whether they have begun."""
        if self.is_busy:
            self._name_if_long()
            return False
        if duties:
            self._name_at = time.monotonic() + LONG_SECONDS
            self._thread = threading.Thread(target=self._run, args=(duties,), name="django_mq-duties", daemon=True)
            self._thread.start()
        return True

    def _name_if_long(self) -> None:
        if time.monotonic() > self._name_at:
            self._name_at = time.monotonic() + LONG_SECONDS
            logger.warning("The duty %s of maintenance still runs; other extensions wait for it", self._running)

    def _run(self, duties: Sequence[Duty]) -> None:
        try:
            while duties and not self._stopping.is_set():
                with self._works:
                    duties = self._run_once(duties)
                self._stopping.wait(PAUSE_SECONDS if duties else 0)
        except StoreError as error:
            logger.warning("The duties of extensions end for now: %s", error)

    def _run_once(self, duties: Sequence[Duty]) -> Sequence[Duty]:
        """Run a batch of each duty; return those that have more to do."""
        done = {}
        try:
            for duty in duties:
                self._running = duty.name
                # The duty before may have left a connection that was replaced.
                done[duty] = run_duty(shared_store(self._alias), duty)
            announce_after(shared_store(self._alias), done)
        finally:
            connections.close_all()  # a child must not inherit them
        return unfinished(done)

    def close(self) -> None:
        """Let the duty that runs be the last one; wait for it a moment."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def abandon(self) -> None:
        """Forget the thread of the parent, in a forked child."""
        self._thread, self._works = None, lock_against_forks()
