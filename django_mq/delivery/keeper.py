"""The keeper: one thread per session that renews it, whatever the worker's loop is doing."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.upkeep import Upkeep
from django_mq.errors import StoreError
from django_mq.stores.records import Heartbeat
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from django_mq.delivery.session import Session

logger = logging.getLogger("django_mq.delivery")

#: Settlements that the driver has left lying for so long, in seconds, are written by the keeper.
STALE_SECONDS = 0.2
#: Time between two rounds of the keeper, in seconds.
ROUND_SECONDS = 0.1


class Keeper:
    """Renews a session every third of its deadline, and does upkeep in between."""

    def __init__(self, session: Session) -> None:
        settings = conf.load()
        self._session = session
        self._deadline_seconds = settings.SESSION_SECONDS
        self.store = private_store(session.alias)
        self._upkeep = Upkeep(self.store, settings.UPKEEP_SECONDS, grace_seconds=settings.SESSION_SECONDS)
        self._renew_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="django_mq-keeper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._renew_at = time.monotonic() + self._deadline_seconds / 3
        if any(consumer.priority for consumer in self._session.describe()):
            self._renew_at = 0.0  # the others must know soon who goes first
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close its connection; from any thread, the keeper's own included."""
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)
        self.store.close()

    def _run(self) -> None:
        while not self._stopping.wait(ROUND_SECONDS):
            try:
                self._round()
            except StoreError as error:
                logger.warning("The session cannot be kept, trying again: %s", error)
                self.store.close()
                self._upkeep.pause_after_outage()
            except Exception:
                # The keeper must outlive any defect: without it the session lapses and its work is done twice.
                logger.exception("The keeper stumbled")

    def _round(self) -> None:
        session = self._session
        if session.settlements.age_seconds() > STALE_SECONDS:
            session.flush()
        if session.retired and not session.lost:
            session.resync(self.store)
        if session.over:
            session.close()
            return
        if time.monotonic() >= self._renew_at:
            self._renew()
        self._upkeep.run_if_due()

    def _renew(self) -> None:
        session = self._session
        if session.id is None or session.lost:
            return
        heartbeat = Heartbeat(
            deadline_seconds=self._deadline_seconds,
            held=session.held,
            queues=session.queues,
            credit=session.credit,
            consumers=session.describe(),
        )
        if not self.store.renew(session.id, heartbeat):
            logger.error("Session %s was reaped: its messages were given to others", session.id)
            session.lose()
        self._renew_at = time.monotonic() + self._deadline_seconds / 3
