"""What an operator does to selected messages: the store changes them, then the queues' consumers are woken.

Messages in another state than the action is for stay unchanged. A function returns what has become of each message
that it changed, so that another can go on with it; ``cancel`` returns the row ids. All raise MQError.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID  # noqa: TC003 - NamedTuple evaluates its annotations for typing.get_type_hints

from django_mq.delivery.hints import hint, tell_workers
from django_mq.delivery.operator import redrives
from django_mq.delivery.publisher import OutgoingMessage, publish_many
from django_mq.engine.decisions.claim import order_of
from django_mq.engine.states import CLAIMED, DEAD, PARKED, READY, SCHEDULED, State
from django_mq.errors import MQError
from django_mq.models import AcknowledgedLetter, Message
from django_mq.models.message import dead_letters
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from django_mq.stores.records import Moved

#: Messages changed by one statement, so that no transaction grows with the selection.
CHUNK = 1000

#: The states that each action is for. In a dead-letter queue, the dead letters of other queues are ready.
STATES: Mapping[str, frozenset[State]] = {
    "redrive": frozenset({READY, DEAD}),
    "deliver_now": frozenset({SCHEDULED, PARKED}),
    "reschedule": frozenset({SCHEDULED, READY, PARKED}),
    "prioritise": frozenset({SCHEDULED, READY, PARKED}),
    "move": frozenset({SCHEDULED, READY, PARKED, DEAD}),
    "release": frozenset({CLAIMED}),
    "cancel": frozenset({SCHEDULED, READY, PARKED, DEAD}),
    "stop": frozenset({CLAIMED}),
    "acknowledge": frozenset({READY, DEAD}),
}


class ActionTarget(NamedTuple):
    """What an action needs of a message."""

    id: int
    message_id: UUID
    queue: str
    state: int
    level: int
    place: int


#: Where the values of a row come from.
COLUMNS = ("pk", "message_id", "queue__name", "state", "level", "place")


def rows_of(found: QuerySet[Any]) -> list[ActionTarget]:
    """Return what an action needs of these messages, in their order."""
    return [ActionTarget(*row) for row in found.values_list(*COLUMNS)]


def in_delivery_order(rows: Iterable[ActionTarget]) -> list[ActionTarget]:
    """Return the rows in the order in which one queue would deliver them."""
    return sorted(rows, key=lambda row: order_of(row.level, row.place, row.id))


def release(rows: Sequence[ActionTarget], *, using: str) -> list[Moved]:
    """Take claimed messages from their workers; later settlements of these are void."""
    return _changed(shared_store(using).operations.release_held, rows, wake=_queues(rows), using=using)


def move(rows: Sequence[ActionTarget], target: str, *, using: str) -> list[Moved]:
    """Move messages that no worker holds to the tail of another queue; their attempts restart."""
    store = shared_store(using)

    def moved(ids: Sequence[int]) -> list[Moved]:
        redrives.restart_attempts(store, ids)
        return store.operations.move(ids, target)

    return _changed(moved, rows, wake=[target], using=using)


def cancel(rows: Sequence[ActionTarget], *, using: str) -> list[int]:
    """Remove messages that no worker holds."""
    store = shared_store(using)
    return [id_ for ids in _chunks(rows) for id_ in store.operations.cancel(ids)]


def stop(rows: Sequence[ActionTarget], *, using: str) -> list[int]:
    """Have workers cancel messages that they hold, also those that run; return the row ids of which one hears.

    A handler that does not end in time is given up. If the worker ends before it has followed, the message is
    removed.
    """
    store = shared_store(using)
    asked = [id_ for ids in _chunks(rows) for id_ in store.sessions.ask_to_stop(ids)]
    if asked:
        tell_workers(using=using)
    return asked


def publish_instead(outgoing: OutgoingMessage, original: int | None, *, using: str) -> UUID:
    """Publish a message and cancel the row that it replaces, or do neither; return the new id. Raises MQError."""
    store = shared_store(using)
    with store.database.transaction():
        (message_id,) = publish_many([outgoing], using=using)
        if original is None or not store.operations.cancel([original]):
            raise MQError(
                "The original cannot be cancelled: a worker holds it, or it is gone. Nothing was published."
            )
    return message_id


def deliver_now(rows: Sequence[ActionTarget], *, using: str) -> list[Moved]:
    """Make scheduled messages ready."""
    return _changed(shared_store(using).operations.deliver_now, rows, wake=_queues(rows), using=using)


def reschedule(rows: Sequence[ActionTarget], deliver_at: datetime, *, using: str) -> list[Moved]:
    """Give scheduled, ready or parked messages another time of delivery; a past one means at once."""
    act = partial(shared_store(using).operations.reschedule, deliver_at=deliver_at)
    return _changed(act, rows, wake=_queues(rows), using=using)


def prioritise(rows: Sequence[ActionTarget], priority: int, *, using: str) -> list[Moved]:
    """Give ready, scheduled or parked messages another priority, 0 to 9."""
    act = partial(shared_store(using).operations.prioritise, priority=priority)
    return _changed(act, rows, wake=_queues(rows), using=using)


def redrive(rows: Sequence[ActionTarget], *, using: str) -> list[Moved]:
    """Make dead messages ready in their old place, and return those of dead-letter queues to their origin."""
    return redrives.redrive_rows([row.id for row in rows], using=using).moved


def acknowledge(rows: Sequence[ActionTarget], reason: str, *, using: str) -> list[int]:
    """Note that an operator knows of dead letters; return the row ids. They stay where they are."""
    store = shared_store(using)
    known = AcknowledgedLetter.objects.using(using)
    noted: list[int] = []
    for ids in _chunks(rows):
        with store.database.transaction():
            found = Message.objects.using(using).filter(dead_letters(), pk__in=ids).order_by("pk")
            known.filter(row_id__in=ids).delete()
            made = known.bulk_create(
                AcknowledgedLetter(row_id=pk, dead_at=dead_at, reason=reason, acknowledged_at=UTCNow())
                for pk, dead_at in found.values_list("pk", "dead_at")
            )
        noted += [one.row_id for one in made]
    return noted


def _queues(rows: Iterable[ActionTarget]) -> set[str]:
    return {row.queue for row in rows}


def _chunks(rows: Sequence[ActionTarget]) -> Iterator[list[int]]:
    """Yield row ids, so many as one transaction changes."""
    for start in range(0, len(rows), CHUNK):
        yield [row.id for row in rows[start : start + CHUNK]]


def _changed(
    act: Callable[[Sequence[int]], list[Moved]], rows: Sequence[ActionTarget], *, wake: Iterable[str], using: str
) -> list[Moved]:
    changed = [each for ids in _chunks(rows) for each in act(ids)]
    if changed:
        hint(wake, using=using)
    return changed
