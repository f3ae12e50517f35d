"""Dead letters go back to the queues they came from, batch by batch.

A dead letter stands in its own queue as ``dead``, or in a dead-letter queue with its origin
in the header ``x-origin-queue``. Both are meant here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform

from django_mq import conf
from django_mq.delivery.hints import hint
from django_mq.engine.afterlife import ORIGIN_QUEUE
from django_mq.engine.states import State
from django_mq.errors import QueueClosed, QueueFull, UnknownQueue
from django_mq.models import Message
from django_mq.models.message import ReadableHeaders, having
from django_mq.stores.errors import closed, no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.db.models import QuerySet

    from django_mq.stores.base import Store

#: Messages sent back by one transaction.
BATCH = 500


@dataclass(slots=True)
class Redriven:
    """What a redrive did: messages back in each queue, and those that could not go."""

    back: dict[str, int] = field(default_factory=dict)
    #: Their queue is gone, unknown, holds a copy of them already, or somebody holds them.
    stayed: int = 0

    @property
    def total(self) -> int:
        return sum(self.back.values())


def redrive(queue: str, *, to: str | None = None, limit: int | None = None, using: str | None = None) -> Redriven:
    """Send the queue's dead letters back to where they came from, or to the queue ``to``.

    Dead messages become ready in their old place, ready ones with an origin move to its
    tail; attempts restart. What arrives meanwhile stays, and what finds its queue closed or full.
    Raises UnknownQueue, and QueueClosed for ``to``.
    """
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    for name in filter(None, (queue, to)):
        found = store.queue(name)
        if found is None:
            raise no_such_queue(name)
        if name == to and found.closed:
            raise closed(name)
    done = Redriven()
    for rows in batches(_dead_letters(queue, alias).values_list("pk"), limit):
        _send_all([pk for (pk,) in rows], to, done, alias)
    return done


def send_back(ids: Sequence[int], *, using: str) -> Redriven:
    """Do the same with these rows: dead letters in whatever queues they are; others stay."""
    done = Redriven()
    for start in range(0, len(ids), BATCH):
        _send_all(ids[start : start + BATCH], None, done, using)
    return done


def is_dead_letter(queue: str, headers: Any) -> bool:
    """Return whether a message in this queue, with these headers, is a dead letter of another queue."""
    return origin_of(queue, headers) != queue


def origin_of(queue: str, headers: Any) -> str:
    """Return the queue in which a message of this queue died, by its headers: text or decoded. Else this queue."""
    if isinstance(headers, str):
        try:
            headers = json.loads(headers)
        except (ValueError, RecursionError):
            return queue
    origin = headers.get(ORIGIN_QUEUE) if isinstance(headers, dict) else None
    return str(origin or queue)


def count_redrivable(queue: str, *, limit: int, using: str | None = None) -> int:
    """Return how many messages ``redrive`` would try, counting up to ``limit``. Raises UnknownQueue."""
    alias = using or conf.load().DATABASE
    if shared_store(alias).queue(queue) is None:
        raise no_such_queue(queue)
    return _dead_letters(queue, alias)[:limit].count()


def _dead_letters(queue: str, alias: str) -> QuerySet[Message]:
    return Message.objects.using(alias).filter(dead_letters(), queue__name=queue)


def dead_letters() -> Q:
    """Return the condition that a message is a dead letter: dead in place, or sent here by another queue."""
    return Q(state=State.DEAD.value) | Q(having(ORIGIN_QUEUE), state=State.READY.value)


def batches(found: QuerySet[Any], limit: int | None) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the messages that are there now, by arrival, each once; of each the values, the primary key first."""
    newest = found.order_by("-pk").values_list("pk", flat=True).first()
    last, left = 0, limit
    while newest is not None and left != 0:
        wanted = BATCH if left is None else min(BATCH, left)
        rows = list(found.filter(pk__gt=last, pk__lte=newest).order_by("pk")[:wanted])
        if not rows:
            return
        yield rows
        last = rows[-1][0]
        left = None if left is None else left - len(rows)


def _send_all(ids: Sequence[int], to: str | None, done: Redriven, alias: str) -> None:
    store = shared_store(alias)
    for (source, target), group in _by_way(ids, to, alias).items():
        went = send(store, group, source, target)
        done.stayed += len(group) - went
        if went:
            done.back[target] = done.back.get(target, 0) + went
            hint([target], using=alias)


def _by_way(ids: Sequence[int], to: str | None, alias: str) -> dict[tuple[str, str], list[int]]:
    """Return the rows by where they are and where they go."""
    # Read by the database: headers that are no JSON, or no text, must not keep the others here.
    origins = KeyTextTransform(ORIGIN_QUEUE, ReadableHeaders())
    rows = Message.objects.using(alias).filter(id__in=ids).order_by("id")
    found = rows.values_list("id", "state", "queue__name", origins)
    ways = defaultdict[tuple[str, str], list[int]](list)
    for row_id, state, queue, origin in found:
        home = queue if state == State.DEAD.value else origin or queue
        ways[queue, to or home].append(row_id)
    return ways


def send(store: Store, ids: Sequence[int], source: str, target: str) -> int:
    """Send rows of one queue back to another, or to the line of their own; return how many went."""
    if target == source:
        return store.retry_dead(ids)
    try:
        return store.move(ids, target)
    except (UnknownQueue, QueueClosed, QueueFull):
        # One queue that is full or gone must not keep the others' letters here. A header may
        # name a queue that is no more, or, as anything a publisher writes, no queue at all.
        return 0
