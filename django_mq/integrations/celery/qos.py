"""Kombu's QoS: what is claimed, what of it a channel is given, and what is not settled yet.

It counts leases instead of keeping copies.
"""

from __future__ import annotations

import logging
import sys
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from django_mq.delivery.handlers import carries_task, is_over
from django_mq.engine.arbiter import MOST_AT_A_TIME
from django_mq.engine.verdict import ending_of, verdict
from django_mq.errors import CorruptMessage, SessionLost, StoreError
from django_mq.integrations.celery.message import payload_of
from django_mq.stores.records import ConsumerInfo, Failure, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.delivery.session import Session
    from django_mq.engine.verdict import Ending, Policy
    from django_mq.integrations.celery.channel import Channel
    from django_mq.integrations.celery.message import Message
    from django_mq.integrations.celery.transport import Transport
    from django_mq.stores.records import Claimed

logger = logging.getLogger("django_mq.celery")


class ChannelQoS:
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
        given: int | None = None if transport is None else transport.given_credit
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


# From claimed rows to callbacks, one by one.
#
# A batch is claimed with one statement but handed over in small portions: with ``-P solo``
# a callback runs the whole task, and between two of them the loop must see its signals and
# write what was acknowledged.

#: After so many seconds of callbacks the loop gets its turn.
PORTION_SECONDS = 0.02


class PrefetchBuffer:
    """What one transport has claimed and not yet given to a callback, in order."""

    def __init__(self, transport: Transport, *, redis_order: bool) -> None:
        self._transport = transport
        self._redis_order = redis_order
        self._waiting: deque[Claimed] = deque()
        # When anything was last handed over, or came while nothing was waiting.
        self._moved_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, claimed: Iterable[Claimed]) -> None:
        """Let freshly claimed messages wait for their callbacks."""
        if not self._waiting:
            self._moved_at = time.monotonic()
        self._waiting.extend(claimed)

    @property
    def ready(self) -> bool:
        """Whether the lease is certain, and the next message's channel has credit for it."""
        try:
            if self._waiting and not self._transport.session.certainty.holds:
                return False  # the heartbeat confirms the lease, and then wakes the loop
            return self._transport.has_credit(self._waiting[0].queue_name)
        except IndexError:  # the heartbeat, or a signal's handler, gives back at any moment
            return False

    def queues(self) -> set[str]:
        """Return the queues that anything waiting came from."""
        return {claimed.queue_name for claimed in tuple(self._waiting)}

    def portion(self, seconds: float = PORTION_SECONDS) -> int:
        """Hand over what is waiting, within the credit and for a moment; return how many."""
        until = time.monotonic() + seconds
        count = 0
        while self.ready and not told_to_stop():
            self._moved_at = time.monotonic()
            count += self.one()
            if time.monotonic() >= until:
                break
        return count

    def one(self) -> bool:
        """Hand over the next message that can be; False if there is none."""
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
        else:
            payload = self.payload(claimed)
            if payload is not None:
                callback(payload)
                return True
        return False

    def ends(self, claimed: Claimed) -> bool:
        """Settle the message if it has expired and is not to be handled; return whether it has."""
        if not is_over(claimed):
            return False
        self._transport.session.expire(claimed)
        return True

    def payload(self, claimed: Claimed) -> dict[str, Any] | None:
        """Return the Kombu message, or dead-letter a row that is none."""
        priority = 9 - claimed.priority if self._redis_order else claimed.priority
        try:
            return payload_of(claimed, self._transport.session, priority=priority)
        except CorruptMessage as error:
            # It must neither loop nor stop the others.
            logger.error("Message %s of queue %r is corrupt: %r", claimed.message_id, claimed.queue_name, error)  # noqa: TRY400 - the trace is our own
            policy = self._transport.declarations.remembered(claimed.queue_name)
            dead = judged(claimed, ending_of(error), policy, f"corrupt: {error}", Failure.of(error))
            self._transport.session.settle(dead)
            return None

    def release(self, queue: str | None = None) -> None:
        """Give back, uncounted, what is waiting for a queue's callback, or for any."""
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
        """Return when what is waiting goes back, None if nothing is or it need not."""
        if len(self._waiting) <= self._transport.credit_now():
            return None
        return max(0.0, self._moved_at + STALE_SECONDS - time.monotonic())

    def give_back_stale(self) -> None:
        """Give back what waits beyond the credit, where nothing moves: a slow task is in front.

        Called by the heartbeat too, for a loop that is blocked by that task.
        """
        if self.stale_seconds() != 0.0:
            return
        for _ in range(len(self._waiting) - self._transport.credit_now()):
            try:
                self._transport.session.release(self._waiting.pop())
            except IndexError:  # the task has just ended
                return


def told_to_stop() -> bool:
    """Whether this worker has received a signal that its loop will heed at its next turn."""
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
    """Return the settlement of a delivery that ended here; ``reason`` is for a dead message."""
    decision = verdict(ending, claimed.attempts + 1, policy, delay_seconds)
    return Settlement.of(claimed, decision, reason, failure)


# How much a transport claims before its channel asks for it.
#
# Celery's window is a few messages for each process. A statement for every few messages would
# cost more than tasks that take a millisecond, so a transport whose tasks are quick claims what they
# use up in a moment, and hands it over within the window as ever. What is not wanted after
# all, because a slow task came, goes back to its place a moment later.
#
# The pace since the claim before decides, so that slow tasks, or an idle worker, claim their window
# and nothing more.

#: Messages are claimed for so long, in seconds: it bounds how late a more urgent one may be.
AHEAD_SECONDS = 0.05
#: Claimed by one statement at most.
MOST_AHEAD = 500
#: What has waited for so long, in seconds, goes back.
STALE_SECONDS = 0.2


class AdaptivePrefetch:
    """The pace of one transport."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._settled = 0
        self._limit = 0

    def amount(self, settled: int) -> int:
        """Return how many messages may be claimed and not settled, given how many were settled ever.

        At most twice what the claim before made it: one quick task proves little.
        """
        seconds = time.monotonic() - self._since
        pace = (settled - self._settled) / seconds if seconds > 0 else 0.0
        return min(MOST_AHEAD, self._limit, int(pace * AHEAD_SECONDS))

    def claimed(self, settled: int, held: int) -> None:
        """Begin to measure anew: a claim has made it so many."""
        self._since, self._settled, self._limit = time.monotonic(), settled, 2 * held


# A pool of threads or green threads begins a task by itself: not before its lease is certain.
#
# A pool of processes is given a task by the worker's loop when a process is free: ``transport.before_events``.

#: Time between two tries to have the lease confirmed, in seconds.
PAUSE_SECONDS = 0.5


def begin_if_certain(pool: Any) -> None:
    """Have the pool ask before each task; once for the pool's life. One of processes is left alone."""
    if pool.uses_semaphore or isinstance(pool.on_apply, _Apply):
        return
    pool.on_apply = _Apply(pool.on_apply)


class _Apply:
    """The pool's way to run a task in a slot of its own, with a question in front."""

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply = apply

    def __call__(self, *args: Any, accept_callback: Any = None, **options: Any) -> Any:
        session = getattr(_message_of(accept_callback), "session", None)
        if session is None:
            return self._apply(*args, accept_callback=accept_callback, **options)

        def accept(*given: Any) -> None:
            # The pool calls this in the slot, right before the task; an error keeps the task from running.
            if not _may_begin(session):
                raise SessionLost
            accept_callback(*given)

        return self._apply(*args, accept_callback=accept, **options)


def _may_begin(session: Session) -> bool:
    """Wait until the lease is certain; False if the messages that had not begun were given back meanwhile."""
    while not (session.certainty.holds or session.lost or session.retired):
        try:
            session.certainty.ensure()
        except SessionLost:
            return False
        except StoreError as error:
            logger.warning("A message waits for its lease to be confirmed: %s", error)
            time.sleep(PAUSE_SECONDS)
    return not (session.lost or session.retired)


def _message_of(accept_callback: Any) -> Any:
    """Return the message of the request whose method this is, None of any other callable."""
    request = getattr(accept_callback, "__self__", None)
    return getattr(request, "message", None)


# What the children of a prefork pool have been given.
#
# A worker that stops or reconnects has its pool forget every task that no child has accepted:
# the broker delivers it again. A task whose bytes are in a child's pipe is among them, and the
# child runs it all the same. It would run twice, its result would not be read, and the child
# would wait half a minute for a reader before it ends. So these are kept, and count as running.

#: Celery's pools of this process that ``keep_given`` has seen.
_pools: weakref.WeakSet[Any] = weakref.WeakSet()


def keep_given(pool: Any) -> None:
    """Have a Celery pool keep, when it is told to forget, what a child has been given; others stay as they are."""
    processes = getattr(pool, "_pool", None)
    if getattr(pool, "flush", None) is None or not hasattr(processes, "outbound_buffer"):
        return
    _pools.add(processes)
    pool.flush = lambda: _flush(processes)


def given_task_ids() -> set[str]:
    """Return the ids of tasks that a child has been given and has not accepted yet."""
    return {job.correlation_id for processes in _pools for job in _given(processes).values()}


def _given(processes: Any) -> dict[int, Any]:
    cache: dict[int, Any] = processes._cache  # noqa: SLF001 - Celery's pool has no other word for it
    return {number: job for number, job in list(cache.items()) if _is_given(job)}


def _is_given(job: Any) -> bool:
    """Whether all bytes of a job are in a living child's pipe, and the child has said nothing of it yet."""
    process = getattr(job, "_write_to", None)
    if process is None or job._accepted or not process._is_alive():  # noqa: SLF001 - as above
        return False
    writer = getattr(job, "_writer", None)  # a weak reference to a generator
    writing = writer() if writer is not None else None
    return writing is None or writing.gi_frame is None


def _flush(processes: Any) -> None:
    """Forget as Celery does, but for what was given: that is out of sight meanwhile."""
    cache, given = processes._cache, _given(processes)  # noqa: SLF001 - as above
    for number in given:
        del cache[number]
    try:
        processes.flush()
    finally:
        # One whose child has died meanwhile is the broker's again.
        kept = {number: job for number, job in given.items() if _is_given(job)}
        cache.update(kept)
        processes._busy_workers.update(job._write_to.inqW_fd for job in kept.values())  # noqa: SLF001 - as above
