"""Convert Kombu's messages to rows and back."""

from __future__ import annotations

import inspect
import json
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from celery import current_app, current_task, signals
from kombu.exceptions import ChannelError
from kombu.transport import virtual

from django_mq.delivery.codecs import (
    JSON,
    MESSAGE_ID,
    UNSAID,
    as_published,
    codec_of,
    decode_headers,
    encode_headers,
    encode_json,
    new_message_id,
    stored_properties,
)
from django_mq.delivery.consumer.handlers import PRIORITIES
from django_mq.delivery.validation import TEXT_LENGTH, aware, check_json, may_be_unstorable, plain, seconds, text
from django_mq.engine.decisions.batches import BATCHES, MEMBER_HEADER
from django_mq.engine.decisions.dead_letters import DEATHS, DEFAULT_EXCHANGE, deaths_in
from django_mq.engine.decisions.routing import address_in
from django_mq.engine.decisions.verdict import Decision, Ending, Verdict, verdict
from django_mq.engine.options import OPTIONS
from django_mq.errors import BodyNotSerialisable, ConfigurationError, CorruptMessage, InvalidMessage, shown
from django_mq.integrations.celery.failures import is_continuing
from django_mq.integrations.celery.unique import claim_in, mark_in
from django_mq.periodic.marks import LISTENING, TICK
from django_mq.stores.clock import clock
from django_mq.stores.records import NewMessage, Settlement, storable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.ends import RunOutcome
    from django_mq.engine.decisions.verdict import Policy
    from django_mq.engine.options import Argument
    from django_mq.stores.records import Claimed, Failure

#: The key of the queue's name, in a message that was taken from a transient queue.
TRANSIENT_QUEUE = "transient_queue"
#: Header with the duplicate id: the queue takes such a message once.
DEDUP_ID = "x-dedup-id"
#: Property of a publish that was tried before.
TRIED = "mq_tried"
#: Property of a received message: its id, for the row of its result.
OWN_ID = "mq_own_id"
#: Headers that only describe the arguments, for people.
SHOWN = ("argsrepr", "kwargsrepr")
#: Properties that have columns of their own, or make sense in this process only.
NOT_STORED = frozenset({"priority", "correlation_id", "body_encoding", "delivery_tag", MESSAGE_ID, OWN_ID, TRIED})
#: The other properties that AMQP has a field for, and Kombu's own.
AMQP = frozenset(
    {"app_id", "delivery_info", "delivery_mode", "expiration", "reply_to", "timestamp", "type", "user_id"}
)


class ClaimedMessage(virtual.Message):
    """A delivered message with its claimed row and session, which are None in a transient queue."""

    def __init__(self, payload: dict[str, Any], channel: Any = None, **options: Any) -> None:
        self.claimed: Claimed = payload.get("claimed")  # type: ignore[assignment]
        self.session: Session = payload.get("session")  # type: ignore[assignment]
        self._taken = payload
        #: Whether it was cancelled: what has run of it is not repeated, and was not done.
        self.revoked = False
        #: Whether its run begins, and how it ended, if that has to be known.
        self.begins = False
        self.outcome: RunOutcome | None = None
        super().__init__(payload, channel=channel, **options)

    def settle_done(self) -> None:
        if self.revoked:
            self.session.settle(Settlement.of(self.claimed, Decision(Verdict.CANCEL)))
        elif self.begins or self.outcome is not None:
            verdict = Verdict.BEGIN if self.begins else Verdict.ACCEPT
            done = Settlement.of(self.claimed, Decision(verdict))
            self.session.settle(replace(done, outcome=None if self.begins else self.outcome))
        else:
            self.session.accept(self.claimed)

    @property
    def is_transient(self) -> bool:
        """Whether the message was taken from a transient queue."""
        return TRANSIENT_QUEUE in self._taken

    def put_back(self) -> None:
        """Write a message of a transient queue again. Raises StoreError."""
        channel: Any = self.channel
        channel.transport.transient.put([self._taken[TRANSIENT_QUEUE]], self._taken)

    def settle_rejected(self, *, requeue: bool) -> None:
        """Give the message back, counting the delivery, or dead-letter it."""
        channel: Any = self.channel
        channel.judge(self, requeue=requeue)


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


def rejected(claimed: Claimed, policy: Policy, reason: str, *, requeue: bool) -> Settlement:
    """Return the settlement of a rejected message, which comes back at once with ``requeue``, unless too often."""
    ending, why = (Ending.FAILED, "requeued too often") if requeue else (Ending.REJECTED, reason)
    return judged(claimed, ending, policy, why, delay_seconds=0.0)


def new_message(queue: str, message: dict[str, Any], *, priority: int) -> NewMessage:
    """Return the row to write for a Kombu message dictionary."""
    headers = message["headers"] or {}
    properties = _stored(message["properties"])
    is_task = "task" in headers
    return NewMessage(
        queue_name=queue,
        message_id=_message_id(message["properties"]),
        body=body_of(message),
        content_type=text(message["content-type"], "content_type", limit=100) or "application/octet-stream",
        content_encoding=text(message["content-encoding"], "content_encoding", limit=40) or "binary",
        headers=_headers(headers),
        properties=_encoded(properties),
        priority=priority,
        type=_short(headers.get("task") or properties.get("type"), "The type") or "",
        correlation_id=_short(message["properties"].get("correlation_id"), "correlation_id"),
        dedup_id=_dedup_id(headers),
        unique=claim_in(headers, queue=queue, owner=str(message["properties"].get("correlation_id") or "")),
        told_to=_mark(headers),
        deliver_at=eta(headers),
        # A task that Celery knows to expire is delivered: the worker revokes it and records that.
        ttl_seconds=None if is_task and headers.get("expires") else expiration_seconds(properties),
        exchange=(properties.get("delivery_info") or {}).get("exchange") or "",
    )


def _mark(headers: dict[str, Any]) -> str | None:
    """Return the listenings that want a task by its headers. Its retries have the same headers."""
    marks = (mark_in(headers), headers.get(TICK) and LISTENING, headers.get(MEMBER_HEADER) and BATCHES)
    return " ".join(filter(None, marks)) or None


def body_of(message: dict[str, Any]) -> bytes:
    """Return the body of a Kombu message dictionary as bytes. Raises InvalidMessage for a text with surrogates."""
    body = message["body"]
    try:
        return body.encode() if isinstance(body, str) else bytes(body)
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"The body is a text that UTF-8 cannot encode: {error}") from None


def arguments_in(message: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task in a Kombu message dictionary, by name; none if its body is not JSON.

    The names of positional arguments are known in processes that have the task.
    """
    if message["content-type"] != JSON:
        return {}
    try:
        args, named, _ = json.loads(body_of(message))
    except (ValueError, TypeError):
        return {}
    task = current_app.tasks.get(message["headers"]["task"])
    if task is not None and args:
        with suppress(TypeError):  # the task says what is wrong with its arguments when it runs
            return inspect.signature(task.run).bind_partial(*args, **named).arguments
    return dict(named)


def _message_id(properties: dict[str, Any]) -> UUID:
    made: UUID | str | None = properties.get(MESSAGE_ID)
    if made is None:
        return new_message_id()
    return made if isinstance(made, UUID) else UUID(made)  # a text in properties that were sent before


def _stored(properties: dict[str, Any]) -> dict[str, Any]:
    stored = {name: value for name, value in properties.items() if name not in NOT_STORED}
    stored.pop(UNSAID, None)  # left over if a received message is published again
    return stored if properties.get("priority") is not None else stored | {UNSAID: True}


def _headers(headers: Any) -> str:
    """Return the headers as JSON. Descriptions of a task's arguments lose what cannot be stored."""
    if not isinstance(headers, dict):
        raise InvalidMessage(f"headers must be a dictionary, not {type(headers).__name__}.")
    encoded = encode_headers(headers)
    if may_be_unstorable(encoded):
        described = {name: storable(headers[name]) for name in SHOWN if isinstance(headers.get(name), str)}
        encoded = encode_headers(headers | described)
        check_json(encoded, "headers")
    return encoded


def _encoded(properties: dict[str, Any]) -> str:
    """Return the properties as JSON, without those that neither AMQP nor JSON knows. AMQP drops them, too."""
    try:
        encoded = encode_json(properties, "properties")
    except BodyNotSerialisable:
        kept = {name: value for name, value in properties.items() if name in AMQP or _is_json(value)}
        encoded = encode_json(kept, "properties")
    check_json(encoded, "properties")
    return encoded


def _is_json(value: Any) -> bool:
    try:
        encode_json(value, "property")
    except BodyNotSerialisable:
        return False
    return True


def _dedup_id(headers: dict[str, Any]) -> str | None:
    """Return the duplicate id. A retry has none: it is the same publication, and must not be refused."""
    if is_continuing(headers):
        return None
    return text(headers.get(DEDUP_ID), f"The header {DEDUP_ID}") or None


def eta(headers: dict[str, Any]) -> datetime | None:
    """Return when a task is due; Celery has turned ``countdown`` into ``eta``. Raises InvalidMessage."""
    value = headers.get("eta")
    if not value:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise InvalidMessage(f"eta {value!r} is not a valid date and time: {error}.") from None
    return aware(moment if moment.tzinfo else moment.replace(tzinfo=UTC), "eta")


def expiration_seconds(properties: dict[str, Any]) -> float | None:
    """Return AMQP's ``expiration`` in seconds, None without one. Raises InvalidMessage."""
    milliseconds = properties.get("expiration")
    if milliseconds in (None, ""):
        return None
    try:
        return seconds(max(0, int(milliseconds)) / 1000, "expiration")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidMessage(f"expiration is {milliseconds!r}; give milliseconds, less than a century.") from error


def _short(value: Any, name: str) -> str | None:
    return text(str(plain(value))[:TEXT_LENGTH], name) if value else None


def payload_of(claimed: Claimed, session: Session, *, priority: int) -> dict[str, Any]:
    """Return the Kombu message dictionary of a claimed row. Raises CorruptMessage."""
    properties = decode_properties(claimed.properties)
    priority = 0 if UNSAID in properties else priority
    exchange, routing_key = address_in(properties, claimed.queue_name)
    properties["delivery_info"] = {
        "exchange": exchange,
        "routing_key": routing_key,
        "redelivered": claimed.redelivered or claimed.attempts > 0,
        "priority": priority,
    }
    body, content_encoding = claimed.body, claimed.content_encoding
    if codec_of(content_encoding) is None:
        body, content_encoding = as_published(body, content_encoding)
    properties.update(
        delivery_tag=f"{claimed.id}.{claimed.claim}", priority=priority, correlation_id=claimed.correlation_id
    )
    properties[OWN_ID] = str(claimed.message_id)
    return {
        "body": bytes(body),
        "content-type": claimed.content_type,
        "content-encoding": content_encoding,
        "headers": _due(_with_times(decode_headers(claimed.headers))),
        "properties": properties,
        "claimed": claimed,
        "session": session,
    }


def _with_times(headers: dict[str, Any]) -> dict[str, Any]:
    """Return the headers with the times of ``x-death`` as AMQP's driver has them: without a time zone, in UTC."""
    deaths = deaths_in(headers) if DEATHS in headers else ()
    return (
        headers | {DEATHS: [{**each, "time": _time(each.get("time"))} for each in deaths]} if deaths else headers
    )


def _time(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value  # not written here
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _due(headers: dict[str, Any]) -> dict[str, Any]:
    """Remove an ``eta`` in the future: the worker would keep the task in memory until then.

    This happens if an operator chose "deliver now", or if the database's clock is ahead of this one.
    """
    try:
        due_at = eta(headers)
    except ValueError:
        return headers  # Celery reports it
    return headers | {"eta": None} if due_at is not None and due_at > clock.now() else headers


def decode_properties(text: str | None) -> dict[str, Any]:
    """Return the properties of a row. Raises CorruptMessage when they are not a JSON object."""
    properties = stored_properties(text)
    if not isinstance(properties.get("delivery_info", {}), dict):
        raise CorruptMessage("The delivery_info among the properties is not an object.")
    return {name: value for name, value in properties.items() if name not in NOT_STORED}


# Whether a task was published with a priority.
#
# Kombu's producer replaces a missing priority by 0. That is the most urgent priority with
# ``priority_order=redis``, and the least urgent one in the default order, where a missing priority means 4.
# Celery's signal, sent just before in the same thread, has the priority that the caller gave.


class _Announced(threading.local):
    """The publish that Celery announced last in this thread."""

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.properties: dict[str, Any] = {}


_announced = _Announced()


def _announce(headers: dict[str, Any], properties: dict[str, Any], **_: Any) -> None:
    _announced.task_id, _announced.properties = headers.get("id"), properties


signals.before_task_publish.connect(_announce, dispatch_uid="django_mq.priorities")


#: The most urgent priority.
HIGHEST_PRIORITY = 9


def urgency(said: Any, *, redis_order: bool = False) -> int:
    """Return the priority from 0 to 9, 9 first, clamped as AMQP brokers do.

    A missing priority is 4, and 9 in Redis's order, as with Kombu's Redis transport.
    """
    unsaid = 9 if redis_order else 4
    if said is None:
        return unsaid
    try:
        value = max(0, min(HIGHEST_PRIORITY, int(said)))
    except (TypeError, ValueError, OverflowError):
        return unsaid
    return 9 - value if redis_order else value


def given(priority: int | None, headers: dict[str, Any] | None) -> int | None:
    """Return the priority that the caller gave, or None. A 0 that was published without Celery stays 0."""
    task_id, properties = _announced.task_id, _announced.properties
    _announced.task_id, _announced.properties = None, {}
    if priority == 0 and task_id is not None and headers and task_id == headers.get("id"):
        said: int | None = properties.get("priority")
        return None if _is_inherited(task_id, headers) else said
    return priority


def _is_inherited(task_id: str, headers: dict[str, Any]) -> bool:
    """Return whether a 0 is inherited from the running task, which was published without a priority."""
    if not (headers.get("parent_id") or headers.get("retries")):
        return False  # first, because `current_task` is slow if no task is running
    if not current_task or UNSAID not in (current_task.request.properties or {}):
        return False
    own_retry = task_id == current_task.request.id
    return own_retry or bool(current_task.app.conf.task_inherit_parent_priority)


def consumer_priority(arguments: dict[str, Any] | None) -> int:
    """Return RabbitMQ's ``x-priority`` of a consumer, 0 where there is none. Raises ChannelError."""
    priority = (arguments or {}).get("x-priority", 0)
    if isinstance(priority, int) and abs(priority) <= PRIORITIES:
        return priority
    raise ChannelError(f"x-priority is {priority!r}; use a whole number.", (60, 20), "Channel.basic_consume", 406)


# RabbitMQ's arguments of a queue, as options of this package. Others are ignored.
# The arguments are used when the queue is created. An existing queue does not change.

#: What RabbitMQ does by default with a full queue; without a limit no queue is full.
OVERFLOW, USUAL_OVERFLOW = "x-overflow", "drop-head"
LIMITS = ("x-max-length", "x-max-length-bytes")
DEAD_EXCHANGE = "x-dead-letter-exchange"


def with_attributes(
    arguments: Mapping[str, Any] | None,
    *,
    expires: float | None = None,
    message_ttl: float | None = None,
    max_length: int | None = None,
    max_length_bytes: int | None = None,
    max_priority: int | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Return the arguments and those given as attributes of Kombu's queue, which has times in seconds."""
    times = {"x-message-ttl": message_ttl, "x-expires": expires}
    named: dict[str, float | None] = {name: seconds and seconds * 1000 for name, seconds in times.items()}
    named |= {"x-max-length": max_length, "x-max-length-bytes": max_length_bytes, MAX_PRIORITY: max_priority}
    return {**(arguments or {}), **{name: value for name, value in named.items() if value is not None}}


MAX_PRIORITY = "x-max-priority"


def has_more_priorities(arguments: Mapping[str, Any] | None) -> bool:
    """Return whether a queue is declared with larger priorities than there are here."""
    most = (arguments or {}).get(MAX_PRIORITY)
    return isinstance(most, int) and most > HIGHEST_PRIORITY


def options_in(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options that the arguments stand for. Raises ConfigurationError."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    if given.keys().isdisjoint(LIMITS):
        given.pop(OVERFLOW, None)
    else:
        given.setdefault(OVERFLOW, USUAL_OVERFLOW)
    if given.get(DEAD_EXCHANGE) == "":
        given[DEAD_EXCHANGE] = DEFAULT_EXCHANGE
    meant = {
        name: _meaning(option.argument, given[option.argument.name])
        for name, option in OPTIONS.items()
        if option.argument is not None and option.argument.name in given
    }
    return {name: value for name, value in meant.items() if value is not None}


def _meaning(argument: Argument, value: Any) -> Any:
    """Return the option's value; None if the argument changes nothing."""
    if argument.values:
        if not isinstance(value, str | bool) or value not in argument.values:
            known = ", ".join(map(str, argument.values))
            raise ConfigurationError(f"{argument.name} is {shown(value)}; use one of {known}.")
        return argument.values[value]
    if argument.units is None:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{argument.name} is {shown(value)}; give a number.")
    try:
        return value / argument.units
    except OverflowError:
        return value  # the option's bounds refuse it
