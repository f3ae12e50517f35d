"""Publish: check, encode, and write the row in the caller's transaction. Only the hint waits for the commit."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async

from django_mq import conf, signals
from django_mq.delivery import hints, validation
from django_mq.delivery.codecs import KEEP_RESULT, encode_body, encode_headers, new_message_id, new_uuids
from django_mq.delivery.queues import declare, explained, may_declare
from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.ends import KEPT
from django_mq.engine.decisions.routing import queues_reached
from django_mq.engine.decisions.unique import Unique, claim_of
from django_mq.engine.message import Message
from django_mq.errors import InvalidMessage, QueueFull, StoreUnavailable, UnknownQueue, shown
from django_mq.seams.ends import mark_of
from django_mq.seams.middleware import Publication, surrounded, within
from django_mq.stores import queue_records
from django_mq.stores.clock import clock
from django_mq.stores.connections import ApartThreads, in_test, replacing, works_for_event_loop
from django_mq.stores.errors import undeclared
from django_mq.stores.records import NewMessage, headers_in
from django_mq.stores.registry import database_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from django_mq.engine.decisions.fairness import Fairness
    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.engine.options import QueueOptions
    from django_mq.seams.extension import Listening
    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord

#: What queues in memory do not support.
KEPT_RESULTS = "results that are kept"
#: The headers of a message that has none.
NO_HEADERS = "{}"


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class OutgoingMessage:
    """One message for ``publish_many``; the fields are the arguments of ``publish``. Do not change it.

    It is not frozen, because a frozen one takes three times as long to make.
    """

    queue: str = ""
    body: Any = None
    exchange: str | None = None
    routing_key: str = ""
    priority: int = 4
    deliver_at: datetime | None = None
    delay: timedelta | float | None = None
    expires_at: datetime | None = None
    ttl: timedelta | float | None = None
    headers: Mapping[str, Any] | None = None
    message_id: UUID | str | None = None
    correlation_id: str | None = None
    type: str = ""
    group_key: str | None = None
    dedup_id: str | None = None
    unique: Unique | None = None
    keep_result_seconds: timedelta | float | None = None
    content_type: str | None = None


def check_body(queue: str, body: Any, message_id: UUID) -> NewMessage:
    """Do what ``check`` does for a body without options, in two thirds of the time."""
    name = validation.check_target(queue, None)
    encoded, content_type = encode_body(body)
    validation.check_size(encoded)
    return NewMessage(queue_name=name, message_id=message_id, body=encoded, content_type=content_type)


def as_outgoing(given: OutgoingMessage | tuple[str, Any]) -> OutgoingMessage:
    """Return an OutgoingMessage, made from a pair of queue and body if need be. Raises InvalidMessage."""
    if isinstance(given, OutgoingMessage):
        return given
    if not isinstance(given, tuple) or len(given) != 2:
        raise InvalidMessage(
            f"Publish an OutgoingMessage, or a pair of queue and body, not {type(given).__name__}."
        )
    return OutgoingMessage(queue=given[0], body=given[1])


def check(outgoing: OutgoingMessage) -> NewMessage:
    """Return the message as a store writes it. Raises InvalidMessage or a subclass."""
    target = validation.check_target(outgoing.queue, outgoing.exchange)
    _text(outgoing.routing_key, "routing_key")
    deliver_at = delay_seconds = expires_at = ttl_seconds = None
    if outgoing.deliver_at is not None or outgoing.delay is not None:
        deliver_at, delay_seconds = validation.moment(outgoing.deliver_at, outgoing.delay, "deliver_at", "delay")
    if outgoing.expires_at is not None or outgoing.ttl is not None:
        expires_at, ttl_seconds = validation.moment(outgoing.expires_at, outgoing.ttl, "expires_at", "ttl")
        validation.check_lifetime(deliver_at, expires_at)
        validation.check_lifetime(delay_seconds, ttl_seconds)
    body, content_type = encode_body(outgoing.body, outgoing.content_type)
    kept = outgoing.keep_result_seconds
    headers = _checked_headers(outgoing.headers if kept is None else _with_keeping(outgoing.headers, kept))
    validation.check_size(body)
    message_id = validation.message_id(outgoing.message_id) or new_message_id()
    return NewMessage(
        queue_name=target if outgoing.exchange is None else "",
        message_id=message_id,
        body=body,
        content_type=validation.text(content_type, "content_type", limit=100),
        headers=headers,
        priority=validation.priority(outgoing.priority),
        type=_text(outgoing.type, "type") or "",
        correlation_id=_text(outgoing.correlation_id, "correlation_id"),
        group_key=_text(outgoing.group_key, "group_key"),
        dedup_id=_text(outgoing.dedup_id, "dedup_id"),
        unique=None if outgoing.unique is None else _claim(outgoing, message_id, body, content_type),
        deliver_at=deliver_at,
        delay_seconds=delay_seconds,
        expires_at=expires_at,
        ttl_seconds=ttl_seconds,
        told_to=None if kept is None else KEPT,
        exchange=target if outgoing.exchange is not None else "",
    )


def _claim(outgoing: OutgoingMessage, message_id: UUID, body: bytes, content_type: str) -> UniqueClaim:
    """Return what a message claims that is unique. Raises InvalidMessage."""
    rule = outgoing.unique
    if not isinstance(rule, Unique):
        raise InvalidMessage(f"unique is {shown(rule)}; give a Unique.")
    if problem := next(rule.problems(), None):
        raise InvalidMessage(f"unique: {problem}")
    if outgoing.exchange is not None:
        raise InvalidMessage("A message to an exchange cannot be unique; publish it to a queue.")
    if rule.debounce_seconds is not None and (outgoing.deliver_at is not None or outgoing.delay is not None):
        raise InvalidMessage("A message that is debounced takes no deliver_at and no delay.")
    validation.text(rule.key, "unique.key")
    arguments = None if rule.key is not None else _arguments(body, content_type)
    return claim_of(
        rule, queue=str(outgoing.queue), type_=str(outgoing.type or ""), owner=str(message_id), arguments=arguments
    )


def _arguments(body: bytes, content_type: str) -> object:
    # As it is stored, so that equal arguments have one form.
    return json.loads(body) if content_type == "application/json" else body.hex()


def _text(given: Any, name: str) -> str | None:
    """Return a text that was given, and None for no text, which most messages have."""
    return None if given is None or given == "" else validation.text(given, name)


def with_headers(message: NewMessage, headers: Mapping[str, Any]) -> NewMessage:
    """Return the message with these headers instead. Raises InvalidMessage or a subclass."""
    return replace(message, headers=_checked_headers(headers))


def _with_keeping(headers: Mapping[str, Any] | None, given: timedelta | float) -> Mapping[str, Any] | None:
    """Return the headers with that for how long the result is kept. Raises InvalidMessage."""
    seconds = validation.seconds(given, "keep_result_seconds")
    if seconds == 0:
        raise InvalidMessage("keep_result_seconds is 0; give the time for which the result is kept.")
    return {**(headers or {}), KEEP_RESULT: seconds} if isinstance(headers, Mapping | None) else headers


def _check_keeping(outgoing: OutgoingMessage, alias: str) -> None:
    """Raise UnsupportedRule for a result that is to be kept in memory."""
    if outgoing.keep_result_seconds is not None:
        database_store(alias, KEPT_RESULTS)


def _checked_headers(given: Mapping[str, Any] | None) -> str:
    if given is None:
        return NO_HEADERS
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidMessage("headers must be a dictionary with strings as keys.")
    headers = encode_headers(dict(given))
    validation.check_json(headers, "headers")
    validation.check_size(headers, "headers")
    return headers


T = TypeVar("T")


def publish(
    queue: str = "",
    body: Any = None,
    *,
    exchange: str | None = None,
    routing_key: str = "",
    priority: int = 4,
    deliver_at: datetime | None = None,
    delay: timedelta | float | None = None,
    expires_at: datetime | None = None,
    ttl: timedelta | float | None = None,
    headers: Mapping[str, Any] | None = None,
    message_id: UUID | str | None = None,
    correlation_id: str | None = None,
    type: str = "",  # noqa: A002 - AMQP's name for it
    group_key: str | None = None,
    dedup_id: str | None = None,
    unique: Unique | None = None,
    keep_result_seconds: timedelta | float | None = None,
    content_type: str | None = None,
    using: str | None = None,
) -> UUID:
    """Publish one message and return its id.

    The row joins the transaction that is open on the database alias: it exists if and only
    if that commits. With autocommit switched off that is your own transaction, and no hint is
    sent: workers find the message when they look. ``priority`` is 0 to 9, 9 first. The message
    is not delivered before ``deliver_at`` (aware; a past time means at once, at the head of its
    level) or ``delay`` from now (a timedelta, or seconds), by the database's clock. It is dropped
    at ``expires_at`` or ``ttl`` from now. With ``exchange``, a copy goes to every queue with a
    binding that matches ``routing_key``, or to none. A queue takes a ``dedup_id``
    once, as long as it remembers it: publishing it again raises DuplicateMessage. ``unique`` says what
    happens if another message has the same key: if this message is dropped, or replaces that one, the id of
    that one is returned. With ``keep_result_seconds``, what the handler returns is kept for so long after the end
    of the message: see ``get_result``.

    Raises, before anything is written: InvalidMessage, BodyNotSerialisable, BodyTooLarge,
    UnknownQueue, QueueClosed, QueueFull, DuplicateMessage, UniqueKeyHeld; and StoreUnavailable.
    """
    outgoing = OutgoingMessage(
        queue=queue,
        body=body,
        exchange=exchange,
        routing_key=routing_key,
        priority=priority,
        deliver_at=deliver_at,
        delay=delay,
        expires_at=expires_at,
        ttl=ttl,
        headers=headers,
        message_id=message_id,
        correlation_id=correlation_id,
        type=type,
        group_key=group_key,
        dedup_id=dedup_id,
        unique=unique,
        keep_result_seconds=keep_result_seconds,
        content_type=content_type,
    )
    if exchange is not None or is_watched():
        return publish_many([outgoing], using=using)[0]
    store = shared_store(using or conf.load().DATABASE)
    message = check(outgoing)
    _check_keeping(outgoing, store.alias)
    conf.middleware()  # a wrong one is reported before the database is asked
    if (fair := fairness_in(store, message.queue_name)) is not None:
        message = keyed(message, fair, body)
    hints.announce(passed(store, [message], partial(append, store)), store)
    return known_by(message)


def fair_queues(store: Store, messages: Iterable[NewMessage]) -> dict[str, Fairness]:
    """Return how keys share those queues of the messages that are shared."""
    conf.middleware()  # a wrong one is reported before the database is asked
    names = {message.queue_name for message in messages}
    return {name: found for name in names if (found := fairness_in(store, name)) is not None}


def fairness_in(store: Store, queue: str) -> Fairness | None:
    """Return how keys share a queue, as was last read, or as the settings say if it does not exist yet."""
    known: QueueOptions | None = queue_records.remembered(store.alias, queue)
    if known is None:
        known = reconnecting(store, lambda _: queue_records.known(store, queue))
    known = known or conf.load().QUEUES.get(queue)
    return None if known is None else known.fairness


def keyed(message: NewMessage, fair: Fairness, body: Any) -> NewMessage:
    """Return the message with its key: if no header says it, a field of the body does."""
    field = body.get(fair.header) if isinstance(body, Mapping) else getattr(body, fair.header, None)
    headers = headers_in(message.headers)
    found = fair.with_key(headers, field)
    return message if found is headers else with_headers(message, found)


def known_by(message: NewMessage) -> UUID:
    """Return the id of a published message, or that of the first one with its unique key."""
    claim = message.unique
    return message.message_id if claim is None or claim.first is None else claim.first.message_id


def is_watched() -> bool:
    """Whether a signal of publishing has receivers."""
    return signals.is_wanted(signals.message_publishing) or signals.is_wanted(signals.messages_published)


def publish_many(messages: Iterable[OutgoingMessage | tuple[str, Any]], *, using: str | None = None) -> list[UUID]:
    """Publish all messages, each an OutgoingMessage or a pair (queue, body); return their ids in order.

    Raises as ``publish`` does; then none is published.
    """
    alias = using or conf.load().DATABASE
    checked, message_ids = _prepare(messages, alias)
    return _write(checked, message_ids, alias)


def _prepare(
    given: Iterable[OutgoingMessage | tuple[str, Any]], alias: str
) -> tuple[list[NewMessage], list[UUID]]:
    """Return the checked messages, a copy for each queue they are routed to, and the ids."""
    given = list(given)
    if signals.is_wanted(signals.message_publishing):
        given = [_announced(as_outgoing(each), alias) for each in given]
    new_ids = new_uuids(len(given))
    ids: list[UUID] = []
    copies: list[NewMessage] = []
    for each in given:
        if isinstance(each, tuple) and len(each) == 2:
            message = check_body(*each, next(new_ids))
            copies.append(message)
        else:
            outgoing = as_outgoing(each)
            message = check(outgoing)
            _check_keeping(outgoing, alias)
            copies += _routed(outgoing, message, alias)
        ids.append(message.message_id)
    if fair := fair_queues(shared_store(alias), copies):
        # Most messages have few headers between them, so each is read once.
        given_headers = {(each.queue_name, each.headers) for each in copies if each.queue_name in fair}
        has_key = {(name, headers) for name, headers in given_headers if fair[name].header in headers_in(headers)}
        bodies = {id_: as_outgoing(each).body for id_, each in zip(ids, given, strict=True)}
        copies = [
            keyed(message, fair[message.queue_name], bodies[message.message_id])
            if message.queue_name in fair and (message.queue_name, message.headers) not in has_key
            else message
            for message in copies
        ]
    return copies, ids


def _routed(outgoing: OutgoingMessage, message: NewMessage, alias: str) -> list[NewMessage]:
    """Return a copy for each queue with a binding that matches; without an exchange, the message itself."""
    if outgoing.exchange is None:
        return [message]
    store = shared_store(alias)
    exchange = store.exchanges.find(validation.plain(outgoing.exchange))
    if exchange is None:
        return []
    as_message = partial(message.as_message, clock.now())
    reached = queues_reached(exchange, outgoing.routing_key or "", as_message, store.exchanges.find)
    return [replace(message, queue_name=name) for name in reached.durable]


def _write(messages: list[NewMessage], message_ids: list[UUID], alias: str) -> list[UUID]:
    """Write messages, and return their ids, or those of the first ones with their unique keys."""
    store = shared_store(alias)
    hints.announce(passed(store, messages, partial(append, store)), store)
    known = {each.message_id: known_by(each) for each in messages if each.unique is not None and each.unique.first}
    message_ids = [known.get(id_, id_) for id_ in message_ids] if known else message_ids
    if signals.is_wanted(signals.messages_published):
        store.database.after_commit(
            partial(signals.tell, signals.messages_published, message_ids=message_ids, using=alias)
        )
    return message_ids


def _announced(outgoing: OutgoingMessage, alias: str) -> OutgoingMessage:
    """Let receivers of the signal add headers. The checks come afterwards, and cover these headers, too."""
    given: Any = outgoing.headers
    if not isinstance(given, Mapping | None):
        return outgoing  # check() refuses it, with the reason
    headers = dict(given or {})
    signals.tell(
        signals.message_publishing,
        headers=headers,
        queue=outgoing.queue,
        exchange=outgoing.exchange,
        type=outgoing.type,
        using=alias,
    )
    return replace(outgoing, headers=headers or outgoing.headers)


#: Async code has no Django transaction to join: its publishes and verbs run here, each on its own.
async_threads = ApartThreads("django_mq-publish")


async def apublish(queue: str = "", body: Any = None, *, using: str | None = None, **options: Any) -> UUID:
    """Publish from async code: like ``publish``, but in another thread and in a transaction of its own.

    While a full queue makes its publishers wait, the coroutine waits and holds no thread.
    """
    [message_id] = await apublish_many([OutgoingMessage(queue=queue, body=body, **options)], using=using)
    return message_id


async def apublish_many(
    messages: Iterable[OutgoingMessage | tuple[str, Any]], *, using: str | None = None
) -> list[UUID]:
    """Publish many messages from async code: like ``publish_many``, but in a transaction of its own."""
    alias = using or conf.load().DATABASE
    checked, message_ids = await run_apart(_prepare, list(messages), alias)
    waited = CapacityWait()
    while True:
        try:
            return await run_apart(_write, checked, message_ids, alias)
        except QueueFull as error:
            rules = await run_apart(lambda queue: rules_of(shared_store(alias), queue), error.queue)
            pause = waited.pause_seconds(error, rules)
        await asyncio.sleep(pause)


async def run_apart(function: Callable[..., T], *args: Any) -> T:
    """Call a function that uses the database from async code."""
    if in_test.get():
        return await sync_to_async(function)(*args)  # over the connection of the test
    return await sync_to_async(replacing(function), thread_sensitive=False, executor=async_threads.executor)(*args)


# Write messages, creating declared queues that do not exist yet, and waiting where a full queue says so.

#: Time between two tries of a publisher that waits for capacity.
PAUSES = Backoff(base_seconds=0.01, multiplier=2.0, cap_seconds=0.25)


def rules_of(store: Store, name: str) -> QueueRecord | None:
    """Return the queue if it has rules, as of at most a few seconds ago; None if it has none.

    Raises UnknownQueue: a queue that appears a moment later may have rules.
    """
    queue = queue_records.known(store, name)
    if queue is None:
        raise undeclared(name)
    return queue if queue.is_constrained else None


class CapacityWait:
    """How long one publisher has waited for capacity, and how long it waits until it tries again."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tries = 0

    def pause_seconds(self, error: QueueFull, queue: QueueRecord | None) -> float:
        """Return the seconds until the next try. Raises the error if the publisher may wait no longer."""
        if queue is None or queue.overflow != "flow":
            raise error
        left = self._began + queue.wait_seconds - time.monotonic()
        if left <= 0:
            raise error
        self._tries += 1
        return min(PAUSES.delay(self._tries), left)


def waiting_for_capacity(
    store: Store, constrained: Mapping[str, QueueRecord], write: Callable[[], object]
) -> None:
    """Write; while a queue is full and lets its publishers wait, try again.

    Raises QueueFull when that takes longer than the queue's ``wait_seconds``. Raises it at once in a transaction,
    which may hold locks that the consumers need, and in a thread that works for an event loop.
    """
    waited = CapacityWait()
    while True:
        try:
            write()
        except QueueFull as error:
            if store.database.in_transaction or works_for_event_loop():
                raise
            pause = waited.pause_seconds(error, constrained.get(error.queue))
        else:
            return
        time.sleep(pause)


def passed(
    store: Store, messages: list[NewMessage], write: Callable[[list[NewMessage]], object]
) -> list[NewMessage]:
    """Write messages through the middleware of publishing; return what was written."""
    middleware, ends = (*conf.middleware().publishing, *within.get()), conf.extensions().ends
    if not middleware:
        messages = marked(messages, ends)
        write(messages)
        return messages
    written: list[NewMessage] = []

    def last(publication: Publication) -> None:
        given = marked(publication.messages, ends)
        write(given)
        written.extend(given)

    surrounded(middleware, Publication(messages=messages, store=store), last)
    return written


def marked(messages: Sequence[NewMessage], listening: Sequence[Listening]) -> list[NewMessage]:
    """Return the messages, each with the listenings that are told its ends."""
    if not any(each.wants for each in listening):
        return list(messages)
    marks = [(each, mark_of(each, listening)) for each in messages]
    return [
        replace(each, told_to=f"{each.told_to or ''} {mark}".strip()) if mark else each for each, mark in marks
    ]


def append(store: Store, messages: list[NewMessage], *, again: bool = False) -> None:
    """Write messages within the limits of their queues, creating declared queues that do not exist yet.

    Outside a transaction, a dead connection is replaced and the write repeated once: Django replaces one only
    between requests. The message ids tell whether the first write was committed.
    """
    names = [message.queue_name for message in messages]
    write = partial(_append_within_limits, store, messages)
    reconnecting(store, lambda tried: declaring(store, names, partial(write, again=again or tried)))


def reconnecting(store: Store, action: Callable[[bool], T]) -> T:
    """Return what the action returns. If the connection is dead, replace it and repeat the action with True."""
    try:
        return action(False)
    except StoreUnavailable:
        if not store.database.reconnect():
            raise
        return action(True)


def _append_within_limits(store: Store, messages: list[NewMessage], *, again: bool) -> None:
    if len(messages) == 1 and messages[0].dedup_id is None and rules_of(store, messages[0].queue_name) is None:
        claim = messages[0].unique
        if claim is None:
            store.publications.append(messages[0], again=again)  # by far the most frequent
            return
        if not again and store.publications.append_first(messages[0], claim):
            return
    names = {message.queue_name for message in messages}
    constrained = {name: rules for name in names if (rules := rules_of(store, name)) is not None}
    # Another message may keep out one with an id or a key.
    if constrained or any(each.dedup_id is not None or each.unique is not None for each in messages):
        if constrained:
            _check_keys(messages, constrained)
            messages = [_placed(message, constrained.get(message.queue_name)) for message in messages]
        waiting_for_capacity(store, constrained, lambda: _admit(store, constrained, messages, again=again))
    elif messages:
        store.publications.append_many(messages, again=again)


def _admit(
    store: Store, constrained: Mapping[str, QueueRecord], messages: Sequence[NewMessage], *, again: bool
) -> None:
    """Write messages by the rules of their queues, and let extensions write what they keep of them."""
    followed = {name for name, queue in constrained.items() if queue.is_followed}
    if not followed:
        store.admission.append(messages, again=again)
        return
    with store.database.transaction():
        ids = store.admission.append(messages, again=again)
        rows = zip(messages, ids, strict=False)
        kept = [_kept(each, row_id) for each, row_id in rows if each.queue_name in followed]
        if found := [each for each in kept if each is not None]:
            for write in conf.extensions().written:
                write(store, found)


def _kept(message: NewMessage, row_id: int) -> NewMessage | None:
    """Return a message that was written; with another id if it has replaced that one's body; None if dropped."""
    if row_id:
        return message
    changed = None if message.unique is None else message.unique.changed_id
    return None if changed is None else replace(message, message_id=changed)


def _check_keys(messages: Sequence[NewMessage], constrained: Mapping[str, QueueRecord]) -> None:
    """Raise InvalidMessage for a key that cannot share its queue."""
    fair = {name: queue.fairness for name, queue in constrained.items() if queue.fairness is not None}
    for name, headers in {(each.queue_name, each.headers) for each in messages if each.queue_name in fair}:
        fair[name].check(Message(id="", headers=headers_in(headers)), name)


def _placed(message: NewMessage, queue: QueueRecord | None) -> NewMessage:
    """Return the message with its place in a sorted queue. Raises InvalidMessage."""
    if queue is None or queue.sorting is None:
        return message
    place = queue.sorting.place(queue.name, headers_in(message.headers))
    return replace(message, place=place)


def declaring(store: Store, names: Iterable[str], write: Callable[[], T]) -> T:
    """Return what ``write`` returns. If a queue is missing, declare those of ``names`` first, and write again.

    Waits for another transaction that is declaring one of them. Raises UnknownQueue if none may be declared.
    """
    try:
        return write()
    except UnknownQueue as error:
        known = sorted(name for name in set(names) if may_declare(name))
        if not known:
            raise UnknownQueue(explained(error, store.alias), queue=error.queue) from None
        for name in known:
            declare(store, name)
        return write()
