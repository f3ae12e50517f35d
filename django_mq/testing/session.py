"""A session of a drain, over the connection of the test, and what it claims for its handlers.

A drain has as many sessions as a process has workers: handlers of one message have one together, and each handler
of many has one of its own.
"""

from __future__ import annotations

import os
import socket
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_mq import __version__
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import Way
from django_mq.delivery.consumer.prefetch import Dispatcher, prefetch_of
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.interruption import EndRequest, Interruption
from django_mq.stores import queue_records
from django_mq.stores.records import ClaimRequest, Heartbeat, Lease, SessionInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ClaimResult, Settlement

#: Longer than any test moves the clock: the session of a drain is not given up meanwhile.
DEADLINE_SECONDS = timedelta(days=36_500).total_seconds()


@dataclass(slots=True)
class DrainEndRequest(EndRequest):
    """Asks whether the message was cancelled when its handler asks: no heartbeat says so beside a drain."""

    _: KW_ONLY
    is_cancelled: Callable[[], bool]

    def at(self, now: float) -> Interruption | None:
        """Return why the attempt has to end at this moment; None if it may go on."""
        if self.interruption is None and self.is_cancelled():
            self.ask(Interruption.CANCELLED)
        return EndRequest.at(self, now)


class DrainSession:
    """Claims for some handlers: one message at a time, or as many as a bulk has."""

    def __init__(self, store: Store, handlers: Sequence[Handler], of_process: Sequence[Handler]) -> None:
        self._store = store
        #: How many messages are claimed at a time: the next claim sees what a handler has published.
        self.size = max((handler.bulk for handler in handlers), default=0) or 1
        given = [replace(handler, credit=self.size, credit_bytes=None) for handler in handlers]
        self.dispatcher = Dispatcher(prefetch_of(given, self._begin), of_process)
        #: The queues with handlers, and all that are consumed.
        self.handled = self.queues = tuple(dict.fromkeys(handler.queue for handler in handlers))
        self._session_id = 0
        self._served = ""

    def _begin(self, message: Claimed, handler: Handler, receipt: Any) -> Delivery:
        alias = self._store.database.alias
        policy = queue_records.last_read(alias, message.queue_name)
        attempt = Delivery(message, handler, policy, Lease(alias, self._session_id), receipt=receipt)
        if handler.way is not Way.EVENT_LOOP:  # which may not ask a database
            attempt.message.end_request = DrainEndRequest(is_cancelled=lambda: self._is_cancelled(message))
        return attempt

    def _is_cancelled(self, message: Claimed) -> bool:
        alive = self._store.sessions.renew(
            self._session_id, Heartbeat(deadline_seconds=DEADLINE_SECONDS, look=False)
        )
        return alive is not None and message.receipt in alive.stops

    def open(self) -> None:
        """Open the session."""
        info = SessionInfo(
            name="drain",
            kind="native",
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            queues=self.queues,
            credit=self.size,
        )
        self._session_id = self._store.sessions.open(info, deadline_seconds=DEADLINE_SECONDS)
        self.consume(self.queues)

    def close(self) -> None:
        """Close the session; what it holds goes back."""
        self._store.sessions.close(self._session_id)

    def consume(self, queues: Sequence[str]) -> None:
        """Claim from these queues, too."""
        self.queues = tuple(dict.fromkeys([*self.queues, *queues]))
        queue_records.know(self._store, self.queues, declare)
        for name in queues:
            self._store.claims.subscribe(self._session_id, name)  # of those that only one session may have

    def claim(self) -> ClaimResult:
        """Claim what may begin now. The queue that was served last is the last one among equals."""
        queue_records.know(self._store, self.queues, declare)
        self.dispatcher.open_groups(frozenset())  # nothing is held any more
        after = self.queues.index(self._served) + 1 if self._served else 0
        request = ClaimRequest(
            queues=self.queues[after:] + self.queues[:after],
            credit=self.size,
            full_scan=True,
            limits=self.dispatcher.wanted(),
            in_order=frozenset(self.queues),
            wanted=self.dispatcher.selections(),
        )
        result = self._store.claims.settle_and_claim(self._session_id, [], request)
        if result.claimed:
            self._served = result.claimed[0].queue_name
        return result

    def settle(self, settlement: Settlement) -> None:
        """Write a verdict."""
        self._store.claims.settle_and_claim(self._session_id, [settlement], None)
