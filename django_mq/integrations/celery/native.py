"""Native handlers in a Celery worker: one registered task runs them all, in Celery's pool.

Each claimed native message becomes a message of the task ``django_mq.deliver``, so that time limits, revoking,
events and instrumentation are Celery's own. The worker's main process is the parent, its pool process the child:

    the handler returned                  the parent accepts, in a batch, with its next claim
    its result is asked for               the child has settled: Celery's answer to the parent has no such value
    a transactional handler returned      the child has settled, in the handler's transaction
    the handler raised                    the child has settled, with the traceback; the parent announces it
    the handler declined                  the parent declines, so that its next claim knows
    the child died or was timed out       the parent counts a failed attempt
    the handler was revoked, terminated   the parent cancels: it is not to run again, and was not done

What a handler raised is raised again for Celery, once it is settled.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, fields, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from celery import Task, shared_task
from celery.exceptions import Ignore, TaskPredicate, Terminated, TimeLimitExceeded, WorkerLostError
from celery.worker.request import Request
from vine import promise

from django_mq.delivery.codecs import ReceivedMessage, decode_headers
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import Handler, carries_task, handler_of
from django_mq.delivery.consumer.unit_of_work import unit_of_work
from django_mq.engine.decisions.interruption import Interruption
from django_mq.engine.decisions.verdict import RETURNED, Ending, Verdict
from django_mq.engine.selector import Selector
from django_mq.errors import Cancelled, CorruptMessage, Decline, HandlerTimeout, Reject, Release, Retry, WorkerLost
from django_mq.integrations.celery.attempts import DELIVER
from django_mq.integrations.celery.internals import is_ended_by_parent, receiver_of
from django_mq.integrations.celery.message import ClaimedMessage, judged
from django_mq.stores import queue_records
from django_mq.stores.records import Claimed, ConsumerInfo, Lease, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.verdict import Policy
    from django_mq.integrations.celery.credit import ChannelQoS
    from django_mq.integrations.celery.deliveries import TransportConsumers
    from django_mq.stores.records import Receipt, Settlement

#: What the task returns where the child has accepted the message.
ACCEPTED = "accepted"
#: Exit status of a child that its parent has ended.
EX_TERMINATED = 143


class NativeMessage(ClaimedMessage):
    """A native message as a message of the task ``django_mq.deliver``."""

    def __init__(self, claimed: Claimed, session: Session, handler: Handler, channel: Any) -> None:
        self.handler = handler
        #: How the child has settled an attempt that was not accepted.
        self.settled: Settlement | None = None
        #: Whether the handler has declined it, which the child does not settle.
        self.declined = False
        #: Whether the child has accepted it, with what the handler returned.
        self.accepted = False
        #: Why the attempt failed, where the child has not settled.
        self.cause: BaseException | None = None
        super().__init__(_payload(claimed, session, handler), channel=channel)

    def settle_done(self) -> None:
        """Accept, unless the child has settled, or the handler has declined or was revoked."""
        if self.settled is not None:
            self.session.settle(self.settled, is_written=True)
            return
        ending = Ending.DECLINED if self.declined else Ending.REVOKED if self.revoked else RETURNED
        settlement = judged(self.claimed, ending, self._policy)
        is_written = (bool(self.handler.settles_itself) or self.accepted) and ending is RETURNED
        self.session.settle(settlement, is_written=is_written)

    def settle_rejected(self, *, requeue: bool) -> None:  # noqa: ARG002 - as a task message's
        """Count a failed attempt, unless the child has settled. The database, which may be away, is not asked."""
        if self.settled is not None:
            self.session.settle(self.settled, is_written=True)
            return
        attempt = Delivery(self.claimed, self.handler, self._policy)
        if isinstance(self.cause, HandlerTimeout):
            attempt.error = self.cause
            self.session.settle(attempt.judge())
        else:
            self.session.settle(attempt.lose(self.cause or WorkerLost()))

    @property
    def _policy(self) -> Policy:
        channel: Any = self.channel
        policy: Policy = channel.policy_of(self.claimed.queue_name)
        return policy


def _payload(claimed: Claimed, session: Session, handler: Handler) -> dict[str, Any]:
    task_id = str(claimed.message_id)
    traces = traces_in(claimed.headers)
    headers = {
        **traces,
        "headers": traces or None,  # where some instrumentation looks for them
        "lang": "py",
        "task": DELIVER,
        "id": task_id,
        "root_id": task_id,
        "parent_id": None,
        "group": None,
        "retries": max(0, claimed.attempts),
        "eta": None,
        "expires": None,
        "timelimit": [handler.time_limit_seconds, None],
        "argsrepr": f"({claimed.queue_name!r}, {task_id!r})",
        "kwargsrepr": "{}",
        "origin": f"session {session.id}",
    }
    properties = {
        "correlation_id": task_id,
        "reply_to": None,
        "priority": claimed.priority,
        "delivery_tag": f"{claimed.id}.{claimed.claim}",
        "delivery_info": {
            "exchange": "",
            "routing_key": claimed.queue_name,
            "redelivered": claimed.redelivered,
            "priority": claimed.priority,
        },
    }
    return {
        "body": json.dumps([[session.alias, session.id, pack(claimed)], {}, {}]),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": properties,
        "claimed": claimed,
        "session": session,
    }


def pack(claimed: Claimed) -> dict[str, Any]:
    """Return the claimed row as JSON values."""
    values = asdict(claimed)
    values["body"] = base64.b64encode(bytes(claimed.body)).decode()
    values["message_id"] = str(claimed.message_id)
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def unpack(values: dict[str, Any]) -> Claimed:
    """Return the claimed row that ``pack`` packed."""
    values = {item.name: values[item.name] for item in fields(Claimed)}
    values["body"] = base64.b64decode(values["body"])
    values["message_id"] = UUID(values["message_id"])
    for name in ("published_at", "deliver_at", "expires_at"):
        values[name] = datetime.fromisoformat(values[name]) if values[name] else None
    return Claimed(**values)


class Declined(Ignore):
    """The handler has declined its message, which is not settled yet."""


class Settled(Ignore):
    """The handler has chosen an outcome; the argument is the settlement that the child has written."""


class HandlerRequest(Request):
    """One run of a handler, in the parent."""

    def __init__(self, message: Any, *args: Any, **options: Any) -> None:
        super().__init__(message, *args, **options)
        # A message that was revoked while it waited comes as Kombu's own.
        if isinstance(message, NativeMessage) and message.claimed.told_to is not None:
            # Not a method: Celery makes a class for each task, which replaces it.
            self.on_success = partial(self._succeed, self.on_success)  # type: ignore[method-assign]

    def _succeed(self, succeed: Callable[..., Any], result: Any, **options: Any) -> None:
        """Note whether the child has accepted the message, before Celery acknowledges it."""
        self.message.accepted = result[1] == repr(ACCEPTED)
        succeed(result, **options)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Note whether the child has settled, before Celery acknowledges or rejects the message."""
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        self.message.declined = isinstance(error, Declined)
        self.message.settled = error.args[0] if isinstance(error, Settled) else getattr(exc_info, "settled", None)
        self.message.cause = error
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def send_event(self, type: str, **fields: Any) -> None:  # noqa: A002 - Celery's signature
        """Note that the handler was revoked: Celery sends this event before it acknowledges the message."""
        if type == "task-revoked":
            self.message.revoked = True
        super().send_event(type, **fields)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Count the attempt as failed: Celery has ended the child."""
        if not soft:
            self.message.cause = HandlerTimeout(f"{self.message.handler.name} ran longer than {timeout} seconds.")
            self.reject(requeue=True)
        super().on_timeout(soft, timeout)


class PoolAttempt(Delivery):
    """An attempt in a child of the pool."""

    __slots__ = ()

    def judge(self) -> Settlement:
        """Judge, or raise SystemExit if the parent has ended this child: a time limit, a revoke, a shutdown."""
        if self.error is not None and is_ended_by_parent():
            raise SystemExit(EX_TERMINATED) from self.error
        return super().judge()

    def _logged(self, error: BaseException) -> None:
        """Return nothing: Celery logs the traceback."""


class DeliverTask(Task):  # type: ignore[type-arg]  # generic in the stubs only
    """The class of the task that runs all handlers."""

    abstract = True
    acks_late = True
    reject_on_worker_lost = True
    acks_on_failure_or_timeout = False
    ignore_result = True
    Request = "django_mq.integrations.celery.native:HandlerRequest"

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:  # noqa: ARG002 - Celery's
        """Send to the parent, with the failure, how the message is settled."""
        einfo.settled = getattr(self.request, "settled", None)


@shared_task(name=DELIVER, base=DeliverTask, bind=True)
def deliver(task: Any, alias: str, session_id: int, packed: dict[str, Any]) -> str | None:
    """Run a handler in a pool process, and return whether this process has accepted the message with a result.

    Raises what the handler raised, or Settled if it chose its outcome so.
    """
    claimed = unpack(packed)
    # Celery's tasks use this thread's connections, too.
    with unit_of_work(is_alone=False):
        handler = handler_of(claimed.queue_name)
        queue_records.known(shared_store(alias), claimed.queue_name)
        policy = queue_records.last_read(alias, claimed.queue_name)
        attempt = PoolAttempt(claimed, handler, policy, Lease(alias, session_id))
        _attempts[claimed.receipt] = attempt
        try:
            settlement = attempt.run()
        finally:
            del _attempts[claimed.receipt]
    is_accepted = settlement.verdict is Verdict.ACCEPT
    if is_accepted and (attempt.settled or (not handler.settles_itself and settlement.returned is None)):
        return None
    if settlement.verdict is Verdict.DECLINE:
        raise Declined  # the parent settles: its next claim must know
    if not attempt.settled:
        with unit_of_work():
            shared_store(alias).settlements.settle(session_id, [settlement])
    if is_accepted:
        # Or by a middleware, which has not called the transactional handler or has caught its error.
        return None if settlement.returned is None else ACCEPTED
    # The parent announces it; the traceback is in the database.
    task.request.settled = settled = replace(settlement, reason="", failure=None)
    raise for_celery(attempt.error, settled)


#: What runs in this process.
_attempts: dict[Receipt, PoolAttempt] = {}


def interrupted(receipt: Receipt) -> bool:
    """Ask a cancelled handler that runs in a thread of this process to end; return whether there is one."""
    attempt = _attempts.get(receipt)
    if attempt is not None:
        attempt.message.end_request.ask(Interruption.CANCELLED)
    return attempt is not None


class NativeConsumer:
    """One handler in a Celery worker. Its messages go to the pool as those of tasks do."""

    def __init__(self, handler: Handler, consumer: Any, deliveries: TransportConsumers) -> None:
        self._handler = handler
        self._consumer = consumer
        self._deliveries = deliveries
        self._delivered = 0
        self._tags: set[str] = set()
        #: Which messages the handler takes; None for all.
        self.selector = Selector(handler.selector) if handler.selector else None

    @property
    def _channel(self) -> Any:
        """The channel of the worker's tasks, whose credit the handler's messages use, too."""
        return self._consumer.task_consumer.channel

    @property
    def qos(self) -> ChannelQoS:
        """The QoS of that channel."""
        qos: ChannelQoS = self._channel.qos
        return qos

    @property
    def credit_bytes(self) -> int | None:
        """How many bytes the handler may hold, None if it names no number."""
        return self._handler.credit_bytes

    def credit(self, ahead: int = 0) -> int:  # noqa: ARG002 - no message is claimed ahead for a handler
        """Return how many more messages the handler may have."""
        qos = self.qos
        self._tags = {tag for tag in self._tags if tag in qos}
        return max(0, min(qos.credit(), self._limit - len(self._tags)))

    @property
    def _limit(self) -> int:
        return self._deliveries.given_credit or self._handler.credit_with(self._consumer.controller.concurrency)

    def hand_over(self, claimed: Claimed, payload: Callable[[], dict[str, Any] | None]) -> bool:
        """Pass a message to Celery, as that of a task; return False if it names a task and is corrupt."""
        if not carries_task(claimed):
            self._begin(claimed)
            return True
        message = payload()
        if message is not None:
            # As if the worker consumed the queue itself.
            self._note(self._channel.deliver(message, receiver_of(self._consumer.task_consumer)))
        return message is not None

    def _note(self, tag: str) -> None:
        self._tags.add(tag)
        self._delivered += 1

    def _begin(self, claimed: Claimed) -> None:
        """Pass a message for the handler to Celery's strategy."""
        channel = self._channel
        handler = self._handler.over(lambda: ReceivedMessage(claimed).body)
        message = NativeMessage(claimed, self._deliveries.session, handler, channel)
        tag = str(message.delivery_tag)
        channel.qos.append(message, tag)
        self._note(tag)
        # Celery before 5.7 has ``call_soon`` only.
        soon = getattr(self._consumer, "call_soon_ack", self._consumer.call_soon)
        self._consumer.strategies[DELIVER](
            message,
            None,
            promise(soon, (message.ack_log_error,)),
            promise(soon, (message.reject_log_error,)),
            self._consumer.on_task_message,
        )

    def describe(self) -> ConsumerInfo:
        """Return what the operator sees."""
        return ConsumerInfo(
            queue_name=self._handler.queue,
            handler=self._handler.name,
            priority=self._handler.priority,
            credit_limit=self._limit,
            credit_used=len(self._tags),
            delivered=self._delivered,
            selector=self._handler.selector,
        )


# What Celery, and with it Sentry, OpenTelemetry and Flower, learn of a handler's run.
#
# A handler that failed is a task that failed, each time: with ``task_failure``, ``task-failed`` and the handler's
# own exception. A handler that chose its outcome (``Release``, ``Reject``, a ``Retry`` that was granted) has not
# failed, and nothing is reported.

#: Headers that carry a trace: W3C's, and Sentry's own. No other header of a message becomes a header of the task,
#: because Celery acts on some.
TRACES = frozenset({"traceparent", "tracestate", "baggage", "sentry-trace"})
#: How a handler chooses an outcome; and exceptions that mean something else to Celery's parent.
UNREPORTED = (
    *(Cancelled, Release, Decline, Reject),
    TaskPredicate,
    MemoryError,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)


def for_celery(error: BaseException | None, settlement: Settlement) -> BaseException:
    """Return what to raise for an attempt that is settled and was not accepted."""
    granted = isinstance(error, Retry) and settlement.verdict is Verdict.RELEASE
    if granted or isinstance(error, UNREPORTED) or not isinstance(error, Exception):
        return Settled(settlement)
    return error


def traces_in(headers: str | None) -> dict[str, str]:
    """Return the headers of a stored message that carry a trace; none if they are corrupt."""
    if not headers or not ("traceparent" in headers or "sentry-trace" in headers):
        return {}  # the worker's loop need not decode the others
    try:
        decoded = decode_headers(headers)
    except CorruptMessage:
        return {}
    found = {name.lower(): value for name, value in decoded.items() if isinstance(value, str)}
    return {name: value for name, value in found.items() if name in TRACES}
