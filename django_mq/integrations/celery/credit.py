"""How many messages, and how many bytes, the consumers of a transport may have.

Each channel counts what it has and has not settled. Quick tasks let a transport claim more than Celery's prefetch
count, for one claim.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from django_mq import conf
from django_mq.engine.decisions.arbiter import MOST_AT_A_TIME
from django_mq.engine.decisions.claim import ByteCredit
from django_mq.errors import StoreError
from django_mq.integrations.celery.internals import given_task_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Set

    from django_mq.engine.selector import Selector
    from django_mq.integrations.celery.message import ClaimedMessage
    from django_mq.stores.records import Claimed, ConsumerInfo


class Settling(Protocol):
    """What a channel's QoS asks of the channel."""

    @property
    def given_credit(self) -> int | None:
        """The credit that an operator has given each consumer, or None."""

    def note_settled(self) -> None:
        """Note that credit came back, in any thread."""


class ChannelQoS:
    """The messages that one channel has and has not settled; it replaces Kombu's QoS.

    Settling pops from a dictionary and appends to a list, so that pool threads and signal handlers may do it at
    any moment. To give a message back is to release its lease: nothing is written again.
    """

    def __init__(self, channel: Settling, prefetch_count: int = 0) -> None:
        self._channel = channel
        self.prefetch_count = prefetch_count or 0
        self._unsettled: dict[str, ClaimedMessage] = {}
        #: About how many were ever settled: two threads may count at once.
        self.settled = 0
        #: How many messages of each queue were ever delivered.
        self.delivered = Counter[str]()

    def __contains__(self, delivery_tag: object) -> bool:
        return delivery_tag in self._unsettled

    @property
    def held(self) -> int:
        """How many messages are delivered and not settled."""
        return len(self._unsettled)

    @property
    def limit(self) -> int:
        """How many messages may be unsettled: the operator's number, or Celery's; 0 = no limit."""
        return self._channel.given_credit or self.prefetch_count

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember a delivered message until it is settled."""
        self._unsettled[delivery_tag] = message

    def credit(self) -> int:
        """Return how many more messages may be delivered."""
        limit = self.limit
        return max(0, limit - len(self._unsettled)) if limit else MOST_AT_A_TIME

    def held_bytes(self, queue: str) -> int:
        """Return how many bytes of bodies of a queue are delivered and not settled."""
        held = (message.claimed for message in list(self._unsettled.values()))
        return sum(len(each.body) for each in held if each is not None and each.queue_name == queue)

    def delivered_until(self, delivery_tag: str) -> list[str]:
        """Return the tags of a message and of those before it; none if the message is settled."""
        tags = list(self._unsettled)
        return tags[: tags.index(delivery_tag) + 1] if delivery_tag in tags else []

    def ack(self, delivery_tag: str) -> None:
        """Settle as done. An unknown tag was settled before: nothing happens."""
        message = self.take(delivery_tag)
        if message is not None:
            message.settle_done()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give back, counting the delivery, or dead-letter. The message of a transient queue goes to its end."""
        if requeue:
            self._put_back(delivery_tag)
        message = self.take(delivery_tag)
        if message is not None:
            message.settle_rejected(requeue=requeue)

    def _put_back(self, delivery_tag: str) -> None:
        """Give back the message of a transient queue. Raises StoreError, and the message stays unsettled."""
        message = self._unsettled.get(delivery_tag)
        if message is not None and message.is_transient:
            message.put_back()

    def restore_unacked(self, running: Set[str] = frozenset()) -> None:
        """Give back the unsettled messages, uncounted, but for those of tasks that run."""
        for tag, unsettled in list(self._unsettled.items()):
            if unsettled.headers.get("id") in running:
                continue
            with suppress(StoreError):  # a transient message is as if it had expired
                self._put_back(tag)
            if (message := self.take(tag)) is not None:
                message.session.release(message.claimed)

    def restore_unacked_once(self, stderr: Any = None) -> None:  # noqa: ARG002 - Kombu's signature
        """Give back, when the channel closes, the messages of tasks that this worker is not running."""
        self.restore_unacked(_running_task_ids())

    def take(self, delivery_tag: str) -> ClaimedMessage | None:
        """Remove a message, once: the second call returns None, as for the message of a transient queue."""
        message = self._unsettled.pop(delivery_tag, None)
        if message is None or message.claimed is None:
            return None
        self.settled += 1
        self._channel.note_settled()
        return message


def _running_task_ids() -> set[str]:
    """Return the ids of tasks that a pool of this process runs or will run; none outside a Celery worker."""
    state = sys.modules.get("celery.worker.state")
    started = {request.id for request in state.active_requests} if state is not None else set()
    return started | given_task_ids()


class Consumer(Protocol):
    """What consumes a queue of a transport: Celery's tasks, or a native handler."""

    @property
    def qos(self) -> ChannelQoS:
        """The QoS of its channel."""

    @property
    def selector(self) -> Selector | None:
        """Which messages it takes; None for all."""

    @property
    def credit_bytes(self) -> int | None:
        """How many bytes it may hold, None if it names no number."""

    def credit(self, ahead: int = 0) -> int:
        """Return how many more messages it may have; tasks may have ``ahead`` at least."""

    def hand_over(self, claimed: Claimed, payload: Callable[[], dict[str, Any] | None]) -> bool:
        """Receive a message, whose form for Kombu is ``payload``; return False if that is corrupt."""

    def describe(self) -> ConsumerInfo:
        """Return what the operator sees."""


def credit_of(consumers: Mapping[str, Consumer], ahead: int) -> tuple[dict[str, int], int]:
    """Return the credit of each queue that has some, and of the channels together; ``ahead`` is the least."""
    able = {queue: left for queue, consumer in consumers.items() if (left := consumer.credit(ahead)) > 0}
    # A handler's messages use the credit of its channel, too.
    channels = {consumers[queue].qos for queue in able}
    return able, sum(max(qos.credit(), ahead) for qos in channels)


def byte_credit_of(consumers: Mapping[str, Consumer], most: int | None) -> dict[str, ByteCredit]:
    """Return the byte credit of those queues that have a limit; ``most`` is the transport's own."""
    most = most or conf.load().CREDIT_BYTES
    limits = {queue: consumer.credit_bytes or most for queue, consumer in consumers.items()}
    return {
        queue: ByteCredit(limit, consumers[queue].qos.held_bytes(queue))
        for queue, limit in limits.items()
        if limit is not None
    }


def window_of(channels: Collection[ChannelQoS]) -> int:
    """Return the smallest prefetch count of the channels, 1 without one."""
    return min((qos.limit or 1 for qos in channels), default=1)
