"""Kombu's QoS: which messages are claimed, which of them a channel has, and which are not settled yet."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django_mq.delivery.consumer.handlers import carries_task
from django_mq.engine.decisions.arbiter import MOST_AT_A_TIME
from django_mq.engine.decisions.verdict import ending_of, verdict
from django_mq.errors import CorruptMessage, StoreError
from django_mq.integrations.celery.message import payload_of
from django_mq.integrations.celery.pools import given_task_ids
from django_mq.stores.records import ConsumerInfo, Failure, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from django_mq.engine.decisions.verdict import Ending, Policy
    from django_mq.integrations.celery.channel import Channel
    from django_mq.integrations.celery.message import ClaimedMessage
    from django_mq.integrations.celery.transport import Transport
    from django_mq.stores.records import Claimed

logger = logging.getLogger("django_mq.celery")


class ChannelQoS:
    """The messages that one channel has and has not settled; it replaces Kombu's QoS.

    Settling pops from a dictionary and appends to a list, so that pool threads and signal handlers may do it at
    any moment. To give a message back is to release its lease: nothing is written again.
    """

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        self.channel = channel
        self.prefetch_count = prefetch_count or 0
        self._unsettled: dict[str, ClaimedMessage] = {}
        #: About how many were ever settled: two threads may count at once.
        self.settled = 0
        #: How many messages of each queue were ever delivered.
        self.delivered = Counter[str]()

    def __contains__(self, delivery_tag: object) -> bool:
        return delivery_tag in self._unsettled

    @property
    def limit(self) -> int:
        """How many messages may be unsettled: the operator's number, or Celery's; 0 = no limit."""
        transport = self.channel.connection
        given: int | None = None if transport is None else transport.given_credit
        return given or self.prefetch_count

    def describe(self, queue: str) -> ConsumerInfo:
        """Return what the operator sees of the consumer of a queue."""
        return ConsumerInfo(
            queue_name=queue,
            handler="Celery tasks",
            priority=self.channel.priorities.get(queue, 0),
            state="interested" if self.credit() > 0 else "busy",
            credit_limit=self.limit,
            credit_used=len(self._unsettled),
            delivered=self.delivered[queue],
            selector=getattr(self.channel.selectors.get(queue), "text", ""),
        )

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
        self.channel.transport.wake_from_other_thread()  # the loop must learn that credit came back
        return message


def _running_task_ids() -> set[str]:
    """Return the ids of tasks that a pool of this process runs or will run; none outside a Celery worker."""
    state = sys.modules.get("celery.worker.state")
    started = {request.id for request in state.active_requests} if state is not None else set()
    return started | given_task_ids()


#: How long callbacks run, in seconds, until the worker's loop gets its turn.
PORTION_SECONDS = 0.02
#: Messages that have waited for so long, in seconds, go back to their places.
STALE_SECONDS = 0.2


class PrefetchBuffer:
    """The messages that one transport has claimed and no callback has received yet, in order.

    Callbacks receive them in small portions: with ``-P solo`` a callback runs the whole task, and between two
    tasks the loop must see its signals and write acknowledgements.
    """

    def __init__(self, transport: Transport, *, redis_order: bool) -> None:
        self._transport = transport
        self._redis_order = redis_order
        self._waiting: deque[Claimed] = deque()
        # When a message was last handed over, or came while none was waiting.
        self._moved_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, claimed: Iterable[Claimed]) -> None:
        """Add claimed messages."""
        if not self._waiting:
            self._moved_at = time.monotonic()
        self._waiting.extend(claimed)

    @property
    def ready(self) -> bool:
        """Whether the lease is certain, and the channel of the first message has credit for it."""
        try:
            if self._waiting and not self._transport.session.may_begin:
                return False  # the heartbeat confirms the lease, and then wakes the loop
            return self._transport.has_credit(self._waiting[0].queue_name)
        except IndexError:  # the heartbeat, or a signal's handler, gives back at any moment
            return False

    def portion(self) -> int:
        """Hand messages over, within the credit, for ``PORTION_SECONDS``; return how many."""
        until = time.monotonic() + PORTION_SECONDS
        count = 0
        while self.ready and not told_to_stop():
            self._moved_at = time.monotonic()
            count += self.one()
            if time.monotonic() >= until:
                break
        return count

    def one(self) -> bool:
        """Hand over the first message that can be; return False if there is none."""
        while True:
            try:
                claimed = self._waiting.popleft()
            except IndexError:  # perhaps because a signal's handler has just given everything back
                return False
            if self._hand_over(claimed):
                return True

    def _hand_over(self, claimed: Claimed) -> bool:
        if self.ends(claimed):
            return False
        native = self._transport.native.get(claimed.queue_name)
        if native is not None and not carries_task(claimed):
            native.take(claimed)
            return True
        callback = self._transport.callback(claimed.queue_name) if native is None else native.take_task
        if callback is None:
            self._transport.session.release(claimed)  # cancelled while the database answered
        elif (payload := self.payload(claimed)) is not None:
            callback(payload)
            return True
        return False

    def ends(self, claimed: Claimed) -> bool:
        """Settle the message if it has expired; return whether it has."""
        if not claimed.expired:
            return False
        self._transport.session.expire(claimed)
        return True

    def payload(self, claimed: Claimed) -> dict[str, Any] | None:
        """Return the message as Kombu has it. A corrupt one becomes a dead letter, and the result is None."""
        priority = 9 - claimed.priority if self._redis_order else claimed.priority
        try:
            return payload_of(claimed, self._transport.session, priority=priority)
        except CorruptMessage as error:
            logger.error("Message %s of queue %r is corrupt: %r", claimed.message_id, claimed.queue_name, error)  # noqa: TRY400 - the trace is our own
            policy = self._transport.declarations.remembered(claimed.queue_name)
            dead = judged(claimed, ending_of(error), policy, f"corrupt: {error}", Failure.of(error))
            self._transport.session.settle(dead)
            return None

    def release(self, queue: str | None = None) -> None:
        """Give back, uncounted, the messages of a queue, or all."""
        others = []
        while self._waiting:
            try:
                claimed = self._waiting.popleft()
            except IndexError:  # the heartbeat has just given it back
                break
            if queue in (None, claimed.queue_name):
                self._transport.session.release(claimed)
            else:
                others.append(claimed)
        self._waiting.extend(others)

    def stale_seconds(self) -> float | None:
        """Return the seconds until messages beyond the credit go back, None if there are none."""
        if len(self._waiting) <= self._transport.credit_now():
            return None
        return max(0.0, self._moved_at + STALE_SECONDS - time.monotonic())

    def give_back_stale(self) -> None:
        """Give back messages beyond the credit if a slow task has blocked them. The heartbeat calls this, too."""
        if self.stale_seconds() != 0.0:
            return
        for _ in range(len(self._waiting) - self._transport.credit_now()):
            try:
                self._transport.session.release(self._waiting.pop())
            except IndexError:  # the task has just ended
                return


def told_to_stop() -> bool:
    """Whether this worker has received a signal that ends its loop at the next turn."""
    state = sys.modules.get("celery.worker.state")
    wishes = () if state is None else (state.should_stop, state.should_terminate)
    return any(wish is not None and wish is not False for wish in wishes)


def judged(
    claimed: Claimed,
    ending: Ending,
    policy: Policy,
    reason: str = "",
    failure: Failure | None = None,
    *,
    delay_seconds: float | None = None,
) -> Settlement:
    """Return the settlement of a delivery that ended so; ``reason`` is for a dead message."""
    decision = verdict(ending, claimed.attempts + 1, policy, delay_seconds)
    return Settlement.of(claimed, decision, reason, failure)


#: How long claimed messages last, in seconds: it bounds how late a more urgent one may be.
AHEAD_SECONDS = 0.05
#: The most messages that one statement claims.
MOST_AHEAD = 500


class AdaptivePrefetch:
    """How much a transport claims beyond Celery's prefetch count.

    Celery's prefetch count is a few messages for each process, and a statement for a few messages costs more than
    tasks that take a millisecond. So a transport whose tasks are quick claims what they finish within
    ``AHEAD_SECONDS``. Since only the pace since the last claim counts, slow tasks and idle workers claim no more
    than the prefetch count.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._settled = 0
        self._limit = 0

    def amount(self, settled: int) -> int:
        """Return how many messages may be claimed and unsettled, by how many were ever settled.

        It is at most twice the last claim: one quick task proves little.
        """
        seconds = time.monotonic() - self._since
        pace = (settled - self._settled) / seconds if seconds > 0 else 0.0
        return min(MOST_AHEAD, self._limit, int(pace * AHEAD_SECONDS))

    def claimed(self, settled: int, held: int) -> None:
        """Measure anew after a claim, after which so many are held."""
        self._since, self._settled, self._limit = time.monotonic(), settled, 2 * held
