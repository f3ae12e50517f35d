"""What indexes alone tell: the ids of the messages in a state, in a queue, or held by a worker.

Each state has an index that begins with the queue. They are read in their own order, and not in that of the ids:
asked for the newest, a database may walk back through all messages to find the few in a state, and does so where
its statistics are old, or where there are none yet.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import F, Q
from django.db.models.expressions import RawSQL

from django_mq.models import Message, Queue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django.db.models import QuerySet

#: Value of the state filter for dead letters of both sorts: dead in place, and moved to a dead-letter queue.
DEAD_LETTERS = "letters"
#: Filters that indexes alone answer, whatever the number of messages.
ANSWERED = frozenset({"state", "queue"})
#: Of fewer messages than these, each is looked at; of more, those that match are sooner found from the newest on.
FEW = 5_000

Status = Message.Status
#: The order of each state's index.
ORDERS: Mapping[Status, tuple[str, ...]] = {
    Status.SCHEDULED: ("queue_id", "deliver_at"),
    Status.READY: ("queue_id", "-level", "place", "pk"),
    Status.CLAIMED: ("queue_id", "session_id"),
    Status.DEAD: ("queue_id", "pk"),
}


def in_state(state: Status) -> Q:
    """Say the state in the statement itself: given it beside, SQLite asks each row of a partial index for it."""
    return Q(state=RawSQL(str(state.value), ()))  # noqa: S611 - a number of our own


def takers(alias: str) -> list[int]:
    """Return the keys of the queues that others name as their dead-letter queue."""
    named = Queue.objects.using(alias).filter(dead_letter_sources__isnull=False).order_by()
    return sorted(named.values_list("pk", flat=True).distinct())


def parts(filters: Mapping[str, str], alias: str) -> list[QuerySet[Any]] | None:
    """Return the keys of the messages that a state, a queue or a worker in these filters leaves, a part per index.

    None if no index narrows anything. Other filters are not looked at.
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
        return [_part(one, known, alias) for one in Status if state in {"", str(one.value)}]
    full = takers(alias) if known is None else [one for one in takers(alias) if one == known]
    others = [_part(one, None, alias).filter(queue_id__in=full) for one in Status if full and one != Status.DEAD]
    return [_part(Status.DEAD, known, alias), *others]


def _state_of(filters: Mapping[str, str]) -> str:
    """Return the state that is asked for: only dead letters have a reason. What is no state asks for none."""
    state = DEAD_LETTERS if filters.get("reason") else filters.get("state", "")
    return state if state == DEAD_LETTERS or state in {str(one.value) for one in Status} else ""


def _key_of(queue: str, alias: str) -> int | None:
    return Queue.objects.using(alias).filter(name=queue).values_list("pk", flat=True).first()


def _part(state: Status, queue: int | None, alias: str) -> QuerySet[Any]:
    rows = Message.objects.using(alias).filter(in_state(state)).order_by(*ORDERS[state])
    if queue is not None:
        # As a range: with an equality the order of the dead would be that of all messages' keys, too.
        rows = rows.filter(queue_id__gte=queue, queue_id__lte=queue)
    return rows.values_list("pk", flat=True)


def few(filters: Mapping[str, str], alias: str) -> list[int] | None:
    """Return the keys that an index leaves of these filters, the newest first; None if they are not few."""
    found = parts(filters, alias)
    if found is None:
        return None
    keys = set(islice(_keys(found), FEW))
    return sorted(keys, reverse=True) if len(keys) < FEW else None


def _keys(found: Sequence[QuerySet[Any]]) -> Iterator[int]:
    for part in found:
        yield from part[:FEW]


def newest(found: Sequence[QuerySet[Any]], limit: int) -> list[int]:
    """Return the newest keys of all parts. The order is one that no index has: it is the part's that is read."""
    keys = {key for part in found for key in part.order_by((F("pk") + 0).desc())[:limit]}
    return sorted(keys, reverse=True)[:limit]
