"""Write what has come: many messages in one transaction, each once by its id, and what cannot be read as dead.

An id is noted in the transaction that writes its message. The queue remembers it as it remembers the duplicate ids
of ``publish``: as long, and as many.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import IntegrityError

from django_mq.bridges.incoming import UnreadableError, kept, read
from django_mq.delivery import hints, publisher
from django_mq.delivery.codecs import decode_body
from django_mq.delivery.queues import declare, may_declare
from django_mq.engine.decisions.duplicates import is_over
from django_mq.errors import (
    DuplicateMessage,
    InvalidMessage,
    MQError,
    PublishError,
    QueueClosed,
    QueueFull,
    StoreError,
    UnknownQueue,
)
from django_mq.models import DuplicateId
from django_mq.models.times import UTCNow
from django_mq.stores.records import storable, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.bridges.incoming import Incoming
    from django_mq.engine.decisions.receivers import Receiver
    from django_mq.stores.records import NewMessage


class Taken(NamedTuple):
    """What was written of some arrivals, all of which may be acknowledged."""

    received: int = 0
    duplicates: int = 0
    kept: int = 0

    def __add__(self, other: Any) -> Taken:
        return Taken(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class BlockedError(MQError):
    """What has come cannot be written now; the first ``done`` of it were written, and may be acknowledged."""

    def __init__(self, reason: str, taken: Taken = Taken(), done: int = 0) -> None:  # noqa: B008 - does not change
        super().__init__(reason)
        self.taken, self.done = taken, done


class RacedError(Exception):
    """Another transaction has just used one of the ids."""


def take(store: Any, receiver: Receiver, arrivals: Sequence[Incoming]) -> Taken:
    """Write arrivals in a transaction, in their order, and return what they were.

    Raises BlockedError, and StoreError: then none may be acknowledged.
    """
    try:
        return _take_together(store, receiver, arrivals)
    except (RacedError, DuplicateMessage, UnknownQueue):
        pass  # another process has written one of them just now, or the queue is new
    except StoreError as error:
        # A message that the database refuses must not keep the others out.
        if len(arrivals) == 1 or type(error) is not StoreError:
            raise
    except (QueueFull, QueueClosed, InvalidMessage):
        pass
    taken = Taken()
    for done, arrival in enumerate(arrivals):
        try:
            taken += take_alone(store, receiver, arrival)
        except BlockedError as error:
            raise BlockedError(str(error), taken, done) from error
    return taken


def take_alone(store: Any, receiver: Receiver, arrival: Incoming, delay_seconds: float | None = None) -> Taken:
    """Write one arrival, to be delivered after ``delay_seconds``. Raises BlockedError and StoreError."""
    try:
        return _take_together(store, receiver, [arrival], delay_seconds)
    except (RacedError, DuplicateMessage):
        return Taken(duplicates=1)
    except UnknownQueue as error:
        if receiver.queue is not None:
            raise BlockedError(str(error)) from error
        return keep(store, receiver, arrival, f"There is no queue {arrival.routing_key!r}, its routing key.")
    except (QueueFull, QueueClosed) as error:
        raise BlockedError(str(error)) from error
    except PublishError as error:
        return keep(store, receiver, arrival, str(error))
    except StoreError as error:
        if type(error) is not StoreError:
            raise  # the database is away, or has no tables
        return keep(store, receiver, arrival, str(error))


def _take_together(
    store: Any, receiver: Receiver, arrivals: Sequence[Incoming], delay_seconds: float | None = None
) -> Taken:
    messages: list[NewMessage] = []
    unreadable: list[tuple[Incoming, str]] = []
    for arrival in arrivals:
        try:
            messages.append(read(arrival, receiver))
        except UnreadableError as error:
            unreadable.append((arrival, str(error)))
    with store.database.transaction():
        new = fresh(store, messages)
        if new:
            if delay_seconds:
                new = [replace(each, delay_seconds=delay_seconds) for each in new]
            _write(store, [replace(each, dedup_id=None) for each in new])
        taken = Taken(received=len(new), duplicates=len(messages) - len(new))
        for arrival, reason in unreadable:
            taken += keep(store, receiver, arrival, reason)
    return taken


def _write(store: Any, messages: list[NewMessage]) -> None:
    """Publish messages whose ids are noted."""
    if fair := publisher.fair_queues(store, messages):
        messages = [
            publisher.keyed(each, fair[each.queue_name], _body(each)) if each.queue_name in fair else each
            for each in messages
        ]
    hints.announce(publisher.passed(store, messages, partial(publisher.append, store)), store)


def _body(message: NewMessage) -> Any:
    return decode_body(message.body, message.content_type, message.content_encoding)


# The ids.


def fresh(store: Any, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Note the ids of messages, and return those that were not noted before, in their order.

    Raises UnknownQueue, BlockedError for a queue that remembers no ids, and RacedError.
    """
    new: list[NewMessage] = []
    by_queue: dict[str, dict[str, NewMessage]] = {}
    for message in messages:
        if message.dedup_id is not None:
            by_queue.setdefault(message.queue_name, {}).setdefault(message.dedup_id, message)
    for name, first in by_queue.items():
        queue = _queue(store, name)
        if not (queue.dedup_count or queue.dedup_seconds is not None):
            raise BlockedError(f"The queue {name!r} remembers no ids; set dedup_count or dedup_seconds.")
        used = _used(store, queue, [*first])
        mine = [message for id_, message in first.items() if id_ not in used]
        _note(store, queue, mine)
        new += mine
    order = {id(message): number for number, message in enumerate(messages)}
    return sorted(new, key=lambda message: order[id(message)])


def _queue(store: Any, name: str) -> Any:
    queue = store.queues.find(name)
    if queue is None and may_declare(name):
        declare(store, name)
        queue = store.queues.find(name)
    if queue is None:
        raise UnknownQueue(f"There is no queue {name!r}; declare it in DJANGO_MQ['QUEUES'].", queue=name)
    return queue


def _used(store: Any, queue: Any, ids: list[str]) -> set[str]:
    """Return the ids that the queue remembers, and forget those that are too old."""
    rows = DuplicateId.objects.using(store.alias).filter(queue_id=queue.id, dedup_id__in=ids)
    found = list(rows.annotate(now=UTCNow()).values_list("pk", "dedup_id", "published_at", "now"))
    over = {
        pk: id_
        for pk, id_, used_at, now in found
        if is_over(used_at.timestamp(), now.timestamp(), queue.dedup_seconds)
    }
    if over:
        DuplicateId.objects.using(store.alias).filter(pk__in=over).delete()
    return {id_ for _, id_, _, _ in found} - set(over.values())


def _note(store: Any, queue: Any, messages: Sequence[NewMessage]) -> None:
    """Write the ids of messages. Raises RacedError if another transaction has written one of them."""
    if not messages:
        return
    # The time is asked for once: with values, and no expression in each row, Django sends columns as arrays.
    now = time_of(store.database.rows("clock")[0][0])
    # In one order for all, or two receivers of the same ids could wait for each other.
    rows = [
        DuplicateId(queue_id=queue.id, dedup_id=str(each.dedup_id), message_id=each.message_id, published_at=now)
        for each in sorted(messages, key=lambda each: str(each.dedup_id))
    ]
    try:
        DuplicateId.objects.using(store.alias).bulk_create(rows)
    except IntegrityError as error:
        raise RacedError from error


def confirm_noted(store: Any, message: NewMessage) -> None:
    """Raise StoreError if the open transaction has failed, or has lost the id of a message."""
    rows = DuplicateId.objects.using(store.alias)
    if not rows.filter(queue__name=message.queue_name, dedup_id=message.dedup_id).exists():
        raise StoreError(
            f"The handler of queue {message.queue_name!r} has ended the transaction that it was called in."
        )


# What cannot be read.


def keep(store: Any, receiver: Receiver, arrival: Incoming, reason: str) -> Taken:
    """Keep an arrival as a dead letter, with its reason. Raises BlockedError, and StoreError.

    Limits of the queue do not refuse it. It goes where the dead letters of the queue go.
    """
    name = receiver.keeps_in
    try:
        with store.database.transaction():
            _queue(store, name)
            message = kept(arrival, name)
            ids = store.publications.append_many([message])
            store.messages.bury(ids, storable(reason, 255))
            store.moves.send_dead(ids)
    except DuplicateMessage:
        return Taken(duplicates=1)
    except (UnknownQueue, QueueClosed) as error:
        raise BlockedError(f"{error} It is to keep what cannot be read: {reason}") from error
    return Taken(kept=1)
