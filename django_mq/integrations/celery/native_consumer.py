"""One native handler in a Celery worker: its messages go Celery's own way to the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vine import promise

from django_mq.integrations.celery.native import DELIVER, NativeMessage
from django_mq.stores.records import ConsumerInfo

if TYPE_CHECKING:
    from django_mq.delivery.handlers import Handler
    from django_mq.integrations.celery.channel import Channel
    from django_mq.integrations.celery.ledger import Ledger
    from django_mq.integrations.celery.transport import Transport
    from django_mq.stores.records import Claimed


class NativeConsumer:
    """One handler in a Celery worker: within its credit, it gets messages of its queue."""

    def __init__(self, handler: Handler, consumer: Any, transport: Transport) -> None:
        self._handler = handler
        self._consumer = consumer
        self._transport = transport
        self._delivered = 0
        self._tags: set[str] = set()

    @property
    def channel(self) -> Channel:
        """The channel whose credit the handler's messages use, too."""
        channel: Channel = self._consumer.task_consumer.channel
        return channel

    def credit(self) -> int:
        """How many more messages the handler may be given."""
        ledger: Ledger = self.channel.qos
        self._tags = {tag for tag in self._tags if tag in ledger}
        return max(0, min(ledger.credit(), self._limit - len(self._tags)))

    @property
    def _limit(self) -> int:
        return self._transport.intake.given_credit or self._handler.credit

    def take(self, claimed: Claimed) -> None:
        """Hand a claimed message to Celery's own strategy, as any task message."""
        channel = self.channel
        message = NativeMessage(claimed, self._transport.intake.session, self._handler, channel)
        tag = str(message.delivery_tag)
        channel.qos.append(message, tag)
        self._tags.add(tag)
        self._delivered += 1
        # Celery before 5.7 has one way for all.
        soon = getattr(self._consumer, "call_soon_ack", self._consumer.call_soon)
        self._consumer.strategies[DELIVER](
            message,
            None,
            promise(soon, (message.ack_log_error,)),
            promise(soon, (message.reject_log_error,)),
            self._consumer.on_task_message,
        )

    def take_task(self, payload: dict[str, Any]) -> None:
        """Hand a message that names a Celery task to Celery, as if the worker consumed the queue itself."""
        tasks = self._consumer.task_consumer
        tag = tasks.channel.deliver(payload, tasks._receive_callback)  # noqa: SLF001 - what Kombu gives to basic_consume
        self._tags.add(tag)
        self._delivered += 1

    def describe(self) -> ConsumerInfo:
        """What the operator sees."""
        return ConsumerInfo(
            queue_name=self._handler.queue,
            handler=self._handler.name,
            priority=self._handler.priority,
            credit_limit=self._limit,
            credit_used=len(self._tags),
            delivered=self._delivered,
        )
