"""Ids that an index alone finds: of the messages in a state, in a queue, or held by a worker.

Each state has an index that begins with the queue. An index is read in its own order. Asked for the newest rows, a
database with old statistics, or none, may walk back through all messages to find the few in a state.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import F

from django_mq.models import Message, Queue
from django_mq.models.message import dead_letters, in_state
from django_mq.models.queue import takes_dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django.db.models import QuerySet

#: The value of the state filter for all dead letters, also those in dead-letter queues.
DEAD_LETTERS = "letters"
#: Filters that indexes alone answer.
ANSWERED = frozenset({"state", "queue"})
#: The value of the state filter for messages that failed and wait for their next attempt.
RETRYING = "retrying"
#: Fewer messages than these are all read. Of more, a look from the newest on finds matches sooner.
FEW = 5_000

Status = Message.Status
#: The order of the index of each state.
ORDERS: Mapping[Status, tuple[str, ...]] = {
    Status.SCHEDULED: ("queue_id", "deliver_at"),
    Status.READY: ("queue_id", "-level", "place", "pk"),
    Status.CLAIMED: ("queue_id", "session_id"),
    Status.DEAD: ("queue_id", "pk"),
    Status.PARKED: ("queue_id", "park_key", "-level", "place", "pk"),
}


def are_answered(filters: Mapping[str, str]) -> bool:
    """Return whether indexes alone answer the filters. They do not say which scheduled messages are retrying."""
    return filters.keys() <= ANSWERED and filters.get("state") != RETRYING


def takers(alias: str) -> list[int]:
    """Return the keys of the queues that take dead letters."""
    return sorted(Queue.objects.using(alias).filter(takes_dead_letters()).order_by().values_list("pk", flat=True))


def parts(filters: Mapping[str, str], alias: str) -> list[QuerySet[Any]] | None:
    """Return the keys that match the state, the queue and the worker of these filters, one part for each index.

    With those that are retrying come all scheduled ones, and with the dead letters all ready messages of the
    queues that take these. None if the filters name none of these.
    """
    state, worker, queue = _state_of(filters), filters.get("worker", ""), filters.get("queue", "")
    if worker.isdecimal():
        return [_part(Status.CLAIMED, None, alias).filter(session_id=int(worker[:18])).order_by("session_id")]
    if not state and not queue:
        return None
    known = _key_of(queue, alias) if queue else None
    if queue and known is None:
        return []
    if state != DEAD_LETTERS:
        found = [_part(one, known, alias) for one in Status if state in {"", str(one.value)}]
        is_scheduled = filters.get("state") == str(Status.SCHEDULED.value)
        return [part.filter(attempts=0) for part in found] if is_scheduled else found
    full = takers(alias) if known is None else [one for one in takers(alias) if one == known]
    others = [_part(Status.READY, None, alias).filter(queue_id__in=full)] if full else []
    return [_part(Status.DEAD, known, alias), *others]


def _state_of(filters: Mapping[str, str]) -> str:
    """Return the state in the filters, or nothing. A reason means dead letters."""
    state = DEAD_LETTERS if filters.get("reason") else filters.get("state", "")
    if state == RETRYING:
        return str(Status.SCHEDULED.value)
    return state if state == DEAD_LETTERS or state in {str(one.value) for one in Status} else ""


def _key_of(queue: str, alias: str) -> int | None:
    return Queue.objects.using(alias).filter(name=queue).values_list("pk", flat=True).first()


def _part(state: Status, queue: int | None, alias: str) -> QuerySet[Any]:
    rows = Message.objects.using(alias).filter(in_state(state)).order_by(*ORDERS[state])
    if queue is not None:
        # As a range: with an equality a database may read the dead by the primary key.
        rows = rows.filter(queue_id__gte=queue, queue_id__lte=queue)
    return rows.values_list("pk", flat=True)


def few(filters: Mapping[str, str], alias: str) -> list[int] | None:
    """Return the keys that an index finds for these filters, the newest first; None if there are many."""
    found = parts(filters, alias)
    if found is None:
        return None
    keys = set(islice(_keys(found), FEW))
    return sorted(keys, reverse=True) if len(keys) < FEW else None


def _keys(found: Sequence[QuerySet[Any]]) -> Iterator[int]:
    for part in found:
        yield from part[:FEW]


def newest(filters: Mapping[str, str], limit: int, alias: str) -> list[int]:
    """Return the newest keys that match. No index has this order, so that the index of each part is read."""
    found = parts(filters, alias) or []
    if _state_of(filters) == DEAD_LETTERS:
        found = [part.filter(dead_letters()) for part in found]
    keys = {key for part in found for key in part.order_by((F("pk") + 0).desc())[:limit]}
    return sorted(keys, reverse=True)[:limit]
