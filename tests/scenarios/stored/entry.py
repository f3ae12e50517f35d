"""A message in a stored queue, with the words of an engine's entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.states import CLAIMED, GONE, HELD, SCHEDULED, STEALABLE, State

if TYPE_CHECKING:
    from django_mq.engine.message import Message
    from django_mq.stores.records import Claimed
    from tests.scenarios.stored.consumer import StoredConsumer
    from tests.scenarios.stored.queue import StoredQueue
    from tests.scenarios.stored.rows import StoredRow


class StoredEntry:
    """What a row says now, and went on saying until it was gone."""

    def __init__(self, queue: StoredQueue, message: Message, row: StoredRow | None) -> None:
        self.queue = queue
        self.message = message
        self._row = row
        #: With what the consumer that was sent it may settle it.
        self.receipt: Claimed | None = None

    @property
    def id(self) -> int:
        """The number of its row."""
        assert self._row is not None
        return self._row.id

    @property
    def state(self) -> State:
        """Where it stands; what waits in line for its time is held."""
        if self._row is None:
            return GONE
        return HELD if self._row.state is SCHEDULED and self.queue.rules.hold else self._row.state

    @property
    def is_claimed(self) -> bool:
        """Whether a consumer holds it."""
        return self.state is CLAIMED or self.state is STEALABLE

    @property
    def owner(self) -> StoredConsumer | None:
        """The consumer that holds it."""
        if self._row is None or not self.is_claimed:
            return None
        return self.queue.broker.session_owner(self._row.session_id)

    @property
    def redelivered(self) -> bool:
        """Whether it may have been delivered before."""
        return self._row is not None and self._row.redelivered

    @property
    def attempts(self) -> int:
        """Deliveries that count: this one included while it is claimed."""
        if self._row is not None:
            return self._row.deliveries
        return 0 if self.receipt is None else self.receipt.attempts + 1

    @property
    def due_at(self) -> float | None:
        """When it becomes ready."""
        return None if self._row is None else self.queue.site.instant(self._row.deliver_at)
