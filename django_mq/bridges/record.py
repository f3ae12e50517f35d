"""Writes what a worker's connection to another broker does, every few seconds and when its state changes."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.db import DatabaseError, connections

from django_mq.engine.decisions.forwarding import BrokerAnswer

if TYPE_CHECKING:
    from django_mq.bridges.links import Link
    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.bridges import Bridge

logger = logging.getLogger("django_mq.bridges")

#: Between two writes of a state that has not changed.
WRITE_SECONDS: Final = 10.0
#: A connection that was not seen for so long is gone.
GONE_SECONDS: Final = 60.0
#: The most characters of an error.
MOST_CHARACTERS: Final = 500


class LinkRecord:
    """The row of one connection."""

    def __init__(self, alias: str, bridge: Bridge) -> None:
        self._alias, self._bridge = alias, bridge
        self._row_id: int | None = None
        self._state, self._since = "", datetime.now(UTC)
        #: The last error, without credentials.
        self.error = ""
        self._error_at: datetime | None = None
        self._forwarded = self._dead = self._written_forwarded = 0
        self._written_at = time.monotonic()
        self._is_due = True

    def connected(self) -> None:
        """Note that the connection is there."""
        self._is_due = True

    def failed(self, words: str) -> None:
        """Note an error, without credentials."""
        self.error, self._error_at, self._is_due = words[:MOST_CHARACTERS], datetime.now(UTC), True

    def count(self, answer: BrokerAnswer, words: str) -> None:
        """Count an answer of the broker."""
        if answer is BrokerAnswer.CONFIRMED:
            self._forwarded += 1
        else:
            self._dead += 1
            self.error, self._error_at = words[:MOST_CHARACTERS], datetime.now(UTC)

    def write_if_due(self, session: Session, link: Link | None) -> None:
        """Write the row if its state has changed, or was written some seconds ago. Never raises."""
        state = "away" if link is None else "blocked" if link.is_blocked else "connected"
        if state != self._state:
            self._state, self._since, self._is_due = state, datetime.now(UTC), True
        seconds = time.monotonic() - self._written_at
        if not self._is_due and seconds < WRITE_SECONDS:
            return
        self._is_due = False
        rate = (self._forwarded - self._written_forwarded) / seconds if seconds >= 1 else 0.0
        self._written_at, self._written_forwarded = time.monotonic(), self._forwarded
        self._write(
            {
                "bridge": self._bridge.name,
                "worker": session.name,
                "state": self._state,
                "since": self._since,
                "confirms": link is None or link.confirms,
                "forwarded": self._forwarded,
                "dead": self._dead,
                "per_second": rate,
                "error": self.error,
                "error_at": self._error_at,
            }
        )

    def _write(self, values: dict[str, Any]) -> None:
        from django_mq.bridges.models import BridgeLink  # noqa: PLC0415 - apps may still be loading
        from django_mq.models.times import UTCNow  # noqa: PLC0415 - as above

        values |= {"seen_at": UTCNow()}
        links = BridgeLink.objects.using(self._alias)
        try:
            if self._row_id is None or not links.filter(pk=self._row_id).update(**values):
                self._row_id = links.create(**values).pk
        except DatabaseError as error:
            logger.warning("The state of the bridge %r could not be written: %s", self._bridge.name, error)
        finally:
            connections[self._alias].close()

    def delete(self) -> None:
        """Delete the row: the worker ends. Never raises."""
        from django_mq.bridges.models import BridgeLink  # noqa: PLC0415 - as above

        if self._row_id is None:
            return
        try:
            BridgeLink.objects.using(self._alias).filter(pk=self._row_id).delete()
        except DatabaseError as error:
            logger.warning("The state of the bridge %r could not be deleted: %s", self._bridge.name, error)
        finally:
            connections[self._alias].close()
