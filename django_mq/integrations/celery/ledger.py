"""What a channel has been given and not settled: Kombu's QoS over leases instead of copies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django_mq.engine.arbiter import MOST_AT_A_TIME
from django_mq.integrations.celery.children import given_task_ids
from django_mq.stores.records import ConsumerInfo

if TYPE_CHECKING:
    from django_mq.integrations.celery.channel import Channel
    from django_mq.integrations.celery.message import Message


class Ledger:
    """Stands where Kombu expects a QoS. Restoring never writes a message again: it releases a lease.

    Settling is a dictionary pop and a queue append, so that pool threads and signal
    handlers may do it at any moment.
    """

    restore_at_shutdown = True

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        self.channel = channel
        self.prefetch_count = prefetch_count or 0
        self._unsettled: dict[str, Message] = {}
        #: How many were settled ever, about: threads may count one another's away.
        self.settled = 0

    def __len__(self) -> int:
        return len(self._unsettled)

    def __contains__(self, delivery_tag: object) -> bool:
        return delivery_tag in self._unsettled

    @property
    def limit(self) -> int:
        """How much may be unsettled: what an operator has given, or what Celery has asked for; 0 = no limit."""
        transport = self.channel.connection
        given: int | None = None if transport is None else transport.intake.given_credit
        return given or self.prefetch_count

    def describe(self, queue: str) -> ConsumerInfo:
        """Return what the operator sees of the consumer of a queue."""
        return ConsumerInfo(
            queue_name=queue,
            handler="Celery tasks",
            priority=self.channel.priority_of(queue),
            state="interested" if self.can_consume() else "busy",
            credit_limit=self.limit,
            credit_used=len(self._unsettled),
        )

    # What Kombu calls.

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember a delivered message until it is settled."""
        self._unsettled[delivery_tag] = message

    def get(self, delivery_tag: str) -> Any:
        """Return an unsettled message. Raises KeyError."""
        return self._unsettled[delivery_tag]

    def can_consume(self) -> bool:
        """Whether there is credit."""
        return self.credit() > 0

    def can_consume_max_estimate(self) -> int:
        """Return the credit."""
        return self.credit()

    def credit(self) -> int:
        """Return how many more messages may be delivered: computed, never counted down, so it cannot drift."""
        limit = self.limit
        if not limit:
            return MOST_AT_A_TIME
        return max(0, limit - len(self._unsettled))

    def ack(self, delivery_tag: str) -> None:
        """Settle as done. An unknown tag was settled before: nothing happens."""
        message = self.take(delivery_tag)
        if message is not None:
            message.settle_done()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give back, counting the delivery, or dead-letter."""
        message = self.take(delivery_tag)
        if message is not None:
            message.settle_rejected(requeue=requeue)

    def restore_unacked(self) -> list[Any]:
        """Give back everything unsettled, uncounted."""
        for tag in list(self._unsettled):
            self._release(tag)
        return []

    def restore_unacked_once(self, stderr: Any = None) -> None:  # noqa: ARG002 - Kombu's signature
        """Give back, when the channel closes, what no task of this worker is running."""
        running = _running_task_ids()
        for tag, message in list(self._unsettled.items()):
            if message.headers.get("id") not in running:
                self._release(tag)

    def restore_visible(self, *args: Any, **options: Any) -> None:
        """Nothing: there is no visibility timeout."""

    def _release(self, delivery_tag: str) -> None:
        message = self.take(delivery_tag)
        if message is not None:
            message.session.release(message.claimed)

    def take(self, delivery_tag: str) -> Message | None:
        """Take a durable message out, once; whoever asks second gets nothing. Volatile ones need no settling."""
        message = self._unsettled.pop(delivery_tag, None)
        if message is None or message.claimed is None:
            return None
        self.settled += 1
        # Pool threads settle too: the loop must learn that credit has come back.
        self.channel.wake_driver()
        return message


def _running_task_ids() -> set[str]:
    """Return the ids of tasks that a pool of this process runs or will, empty outside a Celery worker."""
    state = sys.modules.get("celery.worker.state")
    started = {request.id for request in state.active_requests} if state is not None else set()
    return started | given_task_ids()
