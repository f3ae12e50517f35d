"""Writes settlements without claiming: together, one by one, over a new connection, or never."""

from __future__ import annotations

import logging
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from django_mq.delivery import settling
from django_mq.delivery.settling import given_back, without_details
from django_mq.errors import SessionLost, StoreError, StoreUnavailable
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.delivery.session import Session
    from django_mq.stores.records import Settlement

logger = logging.getLogger("django_mq.delivery")

#: Longest wait of a closing session for settlements that another thread is writing.
FLUSH_SECONDS = 10.0


class SettlementWriter:
    """Writes what waits in ``session.settlements``, from any thread, one at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._flushing = threading.Lock()
        self._flusher: int | None = None

    def flush(self) -> bool:
        """Write what is waiting, without claiming; False if that must wait. Never raises a StoreError.

        Never waits for another flush either, which may be the very one that a signal's
        handler has interrupted: what is added meanwhile is taken along by it, or by the keeper.
        """
        if not self._flushing.acquire(blocking=False):
            return False
        self._flusher = threading.get_ident()
        try:
            while batch := self._session.settlements.take():
                self._write_or_put_back(batch)
        except StoreError as error:
            logger.warning("Settlements wait, the database cannot be written: %s", error)
            return False
        finally:
            self._flusher = None
            self._flushing.release()
        return True

    def _write_or_put_back(self, batch: list[Settlement]) -> None:
        left = list(batch)
        try:
            try:
                self._write(batch)
            except (SessionLost, StoreUnavailable):
                raise
            except StoreError:
                # One that the database refuses for good must not keep the others waiting for ever.
                while left:
                    self._write_or_give_back(left[0])
                    del left[0]
        except StoreError as error:
            if not self._gave_back(left, error):
                self._session.settlements.put_back(left)
                raise
        except BaseException:
            self._session.settlements.put_back(left)
            raise

    def _gave_back(self, batch: list[Settlement], error: StoreError) -> bool:
        """Give back messages that could not be settled for too long; others may be able to handle them."""
        session = self._session
        session_id, seconds = session.id, session.settlements.failing_seconds()
        if session_id is None or seconds < settling.GIVE_UP_SECONDS:
            return False
        try:
            with closing(private_store(session.alias)) as store:
                store.give_back(session_id, batch)
        except StoreError:
            return False
        session.gave_back(batch)
        logger.error(
            "Gave back %s finished messages, they run again: no verdict could be written for %.0f s: %s",
            len(batch),
            seconds,
            error,
        )
        return True

    def _write_or_give_back(self, settlement: Settlement) -> None:
        """Write one settlement, if need be without its details; give the message back if that is refused, too.

        Raises a StoreError where nothing can be written at all, or not now.
        """
        attempts = (settlement, without_details(settlement), given_back(settlement))
        for number, attempt in enumerate(attempts, start=1):
            try:
                self._write([attempt])
            except (SessionLost, StoreUnavailable):
                raise
            except StoreError as error:
                if number == len(attempts):
                    raise
                logger.warning("The database refuses a settlement of message row %s: %s", settlement.id, error)
            else:
                return

    def _write(self, batch: list[Settlement]) -> None:
        session = self._session
        session_id, keeper = session.id, session.keeper
        known = session.store if keeper is None else keeper.store
        if session_id is None:
            return
        if session.settlements.failing_seconds() < settling.RECONNECT_SECONDS:
            void = known.exchange(session_id, batch, None).void
        else:
            # The connection may be at fault, and still good enough to keep the session meanwhile.
            with closing(private_store(session.alias)) as store:
                void = store.exchange(session_id, batch, None).void
            known.close()
        session.written(batch, void)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Wait for the thread that writes settlements: rows given back meanwhile would make these void.

        Not for a flush that a signal's handler, in this thread, has interrupted, and not for ever.
        """
        mine = self._flusher == threading.get_ident()
        waited = not mine and self._flushing.acquire(timeout=FLUSH_SECONDS)
        try:
            yield
        finally:
            if waited:
                self._flushing.release()
