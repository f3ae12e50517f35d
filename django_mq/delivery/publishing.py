"""Publishing: check, encode, and append in the caller's transaction. Only the hint waits for the commit."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async

from django_mq import conf, signals
from django_mq.delivery import hinting, validation
from django_mq.delivery.codecs import encode_body, encode_json
from django_mq.delivery.declaring import declaring
from django_mq.delivery.limits import rules_of, waiting_for_room
from django_mq.delivery.message_ids import new_message_id, new_uuids
from django_mq.delivery.routing import route
from django_mq.errors import InvalidMessage, StoreUnavailable
from django_mq.stores.records import NewMessage
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime, timedelta
    from uuid import UUID

    from django_mq.stores.base import Store

T = TypeVar("T")

#: The headers of a message that has none.
NO_HEADERS = "{}"


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
    content_type: str | None = None,
    using: str | None = None,
) -> UUID:
    """Publish one message and return its id.

    The row joins the transaction that is open on the database alias: it exists if and only
    if that commits. ``priority`` is 0 to 9, 9 first. The message is delivered not before
    ``deliver_at`` (aware; a past time means at once, at the head of its level) or ``delay``
    from now (a timedelta, or seconds), by the database's clock; it is dropped at
    ``expires_at`` or ``ttl`` from now. With ``exchange``, a copy goes to every queue whose
    binding matches ``routing_key``, and to none if none matches. A queue takes a ``dedup_id``
    once, as long as it remembers it: publishing it again raises DuplicateMessage.

    Raises, before anything is written: InvalidMessage, BodyNotSerialisable, BodyTooLarge,
    UnknownQueue, QueueClosed, QueueFull, DuplicateMessage; and StoreUnavailable.
    """
    said = (exchange, routing_key, priority, headers, message_id, correlation_id, type, group_key, content_type)
    timed = (deliver_at, delay, expires_at, ttl, dedup_id)
    if all(map(is_, said + timed, SAID_NOTHING)) and not is_watched():
        return _publish_plain(queue, body, using or conf.load().DATABASE)
    letter = Letter(
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
        content_type=content_type,
    )
    return publish_many([letter], using=using)[0]


#: The arguments of ``publish`` that nobody gave.
SAID_NOTHING = (None, "", 4, None, None, None, "", *(None,) * 7)


def is_watched() -> bool:
    """Whether somebody listens to what is published."""
    return signals.is_wanted(signals.message_publishing) or signals.is_wanted(signals.messages_published)


def _publish_plain(queue: str, body: Any, alias: str) -> UUID:
    """Do what ``publish_many`` does for one body and its queue, where nobody watches, in half of the time."""
    store = shared_store(alias)
    message = _check_body(queue, body, new_message_id())
    append(store, [message])
    hinting.announce([message], store)
    return message.message_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message for ``publish_many``; the fields are the arguments of ``publish``."""

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
    content_type: str | None = None


def publish_many(letters: Iterable[Letter | tuple[str, Any]], *, using: str | None = None) -> list[UUID]:
    """Publish all messages, or, raising as ``publish`` does, none; return their ids in order.

    Each is a Letter, or a pair of queue and body.
    """
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    if signals.is_wanted(signals.message_publishing):
        letters = [_announced(as_letter(given), alias) for given in letters]
    given_all = list(letters)
    ids = new_uuids(len(given_all))
    checked = [_check_plain(given, ids) or check(as_letter(given)) for given in given_all]
    routed = [
        copy for letter, message in checked for copy in route(store, letter.exchange, letter.routing_key, message)
    ]
    append(store, routed)
    hinting.announce(routed, store)
    message_ids = [message.message_id for _, message in checked]
    if signals.is_wanted(signals.messages_published):
        store.after_commit(partial(signals.tell, signals.messages_published, message_ids=message_ids, using=alias))
    return message_ids


def _announced(letter: Letter, alias: str) -> Letter:
    """Let receivers add headers, before anything is checked: what they add is held to the same rules."""
    given: Any = letter.headers
    if not isinstance(given, Mapping | None):
        return letter  # refused in a moment, with the reason
    headers = dict(given or {})
    signals.tell(
        signals.message_publishing,
        headers=headers,
        queue=letter.queue,
        exchange=letter.exchange,
        type=letter.type,
        using=alias,
    )
    return replace(letter, headers=headers or letter.headers)


#: Stands for the letter that a pair of queue and body is: no exchange, and nothing said.
PLAIN = Letter()


def _check_plain(given: Letter | tuple[str, Any], ids: Iterator[UUID]) -> tuple[Letter, NewMessage] | None:
    """Check a pair as ``check`` would check its letter, in a third of the time; None for anything else."""
    if type(given) is not tuple or len(given) != 2:
        return None
    return PLAIN, _check_body(*given, next(ids))


def _check_body(queue: str, body: Any, message_id: UUID) -> NewMessage:
    validation.check_target(queue, None)
    encoded, content_type = encode_body(body)
    validation.check_size(encoded)
    return NewMessage(queue_name=queue, message_id=message_id, body=encoded, content_type=content_type)


def as_letter(given: Letter | tuple[str, Any]) -> Letter:
    """Return the letter, or make one of a pair of queue and body. Raises InvalidMessage."""
    if isinstance(given, Letter):
        return given
    if not isinstance(given, tuple) or len(given) != 2:
        raise InvalidMessage(f"Publish a Letter, or a pair of queue and body, not {type(given).__name__}.")
    return Letter(queue=given[0], body=given[1])


def check(letter: Letter) -> tuple[Letter, NewMessage]:
    """Return the letter with its message, checked and encoded. Raises InvalidMessage and its kin."""
    validation.check_target(letter.queue, letter.exchange)
    validation.text(letter.routing_key, "routing_key")
    deliver_at, delay_seconds = validation.moment(letter.deliver_at, letter.delay, "deliver_at", "delay")
    expires_at, ttl_seconds = validation.moment(letter.expires_at, letter.ttl, "expires_at", "ttl")
    body, content_type = encode_body(letter.body, letter.content_type)
    headers = _checked_headers(letter.headers)
    validation.check_size(body)
    return letter, NewMessage(
        queue_name=letter.queue,
        message_id=validation.message_id(letter.message_id) or new_message_id(),
        body=body,
        content_type=validation.text(content_type, "content_type", limit=100),
        headers=headers,
        priority=validation.priority(letter.priority),
        type=validation.text(letter.type, "type"),
        correlation_id=validation.text(letter.correlation_id, "correlation_id") or None,
        group_key=validation.text(letter.group_key, "group_key") or None,
        dedup_id=validation.text(letter.dedup_id, "dedup_id") or None,
        deliver_at=deliver_at,
        delay_seconds=delay_seconds,
        expires_at=expires_at,
        ttl_seconds=ttl_seconds,
    )


def _checked_headers(given: Mapping[str, Any] | None) -> str:
    if given is None:
        return NO_HEADERS
    headers = encode_json(validation.headers(given), "headers")
    validation.check_headers(headers)
    validation.check_size(headers, "headers")
    return headers


def append(store: Store, messages: list[NewMessage], *, again: bool = False) -> None:
    """Write messages; missing queues of the settings are declared, limited ones held to their limits.

    Outside a transaction a connection that turns out to be dead is replaced and the write
    repeated once: beat, scripts and consumers have no request whose end would do it. The
    first write may have been committed all the same; the message ids tell.
    """
    try:
        _append_declaring(store, messages, again=again)
    except StoreUnavailable:
        if not store.reconnect():
            raise
        _append_declaring(store, messages, again=True)


def _append_declaring(store: Store, messages: list[NewMessage], *, again: bool) -> None:
    write = partial(_append_within_limits, store, messages, again=again)
    declaring(store, (message.queue_name for message in messages), write)


def _append_within_limits(store: Store, messages: list[NewMessage], *, again: bool) -> None:
    if len(messages) == 1 and messages[0].dedup_id is None and rules_of(store, messages[0].queue_name) is None:
        store.append(messages[0], again=again)  # by far the most frequent
        return
    names = {message.queue_name for message in messages}
    ruled = {name: rules for name in names if (rules := rules_of(store, name)) is not None}
    if ruled or any(message.dedup_id is not None for message in messages):
        waiting_for_room(store, ruled, lambda: store.append_by_rules(messages, again=again))
    else:
        _append(store, messages, again=again)


def _append(store: Store, messages: list[NewMessage], *, again: bool) -> None:
    if len(messages) == 1:
        store.append(messages[0], again=again)
    elif messages:
        store.append_many(messages, again=again)


#: Async code has no Django transaction to join: its publishes run here, each on its own.
_async_publisher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="django_mq-publish")


async def apublish(queue: str = "", body: Any = None, **options: Any) -> UUID:
    """Publish from async code: as ``publish``, in a thread of its own and in autocommit.

    It joins no transaction: Django has none in async code.
    """
    return await _run_apart(publish, queue, body, **options)


async def apublish_many(letters: Iterable[Letter | tuple[str, Any]], *, using: str | None = None) -> list[UUID]:
    """Publish many from async code: as ``publish_many``, in one transaction of its own."""
    return await _run_apart(publish_many, list(letters), using=using)


async def _run_apart(function: Callable[..., T], *args: Any, **options: Any) -> T:
    call = partial(function, *args, **options)
    return await sync_to_async(call, thread_sensitive=False, executor=_async_publisher)()
