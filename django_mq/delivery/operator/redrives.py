"""Redrive dead letters: return them to the queues they came from, in batches.

A dead letter in another queue than its own has its origin in the header ``x-origin-queue``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform

from django_mq import conf
from django_mq.delivery.consumer.handlers import RETRIES, TASK_HEADERS
from django_mq.delivery.hints import hint
from django_mq.delivery.queues import record_of
from django_mq.engine.decisions.dead_letters import DEATHS, ORIGIN_QUEUE
from django_mq.engine.states import State
from django_mq.errors import QueueClosed, QueueFull, UnknownQueue
from django_mq.models import Message, Queue
from django_mq.models.message import ReadableHeaders, dead_letters, having, in_state
from django_mq.models.queue import takes_dead_letters
from django_mq.stores.errors import closed
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django.db.models import QuerySet

    from django_mq.stores.base import Store
    from django_mq.stores.records import Moved

#: Messages redriven by one transaction.
BATCH = 500


@dataclass(slots=True)
class Redriven:
    """What a redrive did: how many messages went back to each queue, and how many stayed."""

    back: dict[str, int] = field(default_factory=dict)
    #: The queue is gone, closed, full or unknown, or has a copy of the message; or a worker holds the message.
    stayed: int = 0
    #: What has become of each message, if ``redrive_rows`` was asked.
    moved: list[Moved] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.back.values())

    def add(self, other: Redriven) -> None:
        """Add what another part of the redrive did."""
        for queue, count in other.back.items():
            self.back[queue] = self.back.get(queue, 0) + count
        self.stayed += other.stayed


def _at_once(_ids: Sequence[int], send: Callable[[], Redriven]) -> Redriven:
    return send()


def redrive(
    queue: str,
    *,
    to: str | None = None,
    limit: int | None = None,
    using: str | None = None,
    each: Callable[[Sequence[int], Callable[[], Redriven]], Redriven] = _at_once,
) -> Redriven:
    """Return the queue's dead letters to the queues they came from, or move them to the queue ``to``.

    Dead letters become ready in their old place; those of other queues move to the tail of their origin. Attempts
    restart. With ``to``, all ready messages of a dead-letter queue move. Messages that arrive meanwhile stay, and
    so do those for a closed or full queue. ``each`` is called with the rows of a batch, and with what sends them.

    Raises UnknownQueue, and QueueClosed for ``to``.
    """
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    record_of(store, queue)
    if to:
        check_target(to, using=alias)
    done = Redriven()
    found = Message.objects.using(alias).filter(redrivable(to, using=alias), queue__name=queue)
    for rows in batches(found.values_list("pk"), limit):
        ids = [pk for (pk,) in rows]
        done.add(each(ids, partial(redrive_rows, ids, to=to, using=alias)))
    return done


def redrivable(to: str | None, *, using: str) -> Q:
    """Return the condition that a redrive acts on a message.

    With the target ``to``, it also moves the ready messages of a dead-letter queue that were published there.
    """
    if to is None:
        return dead_letters()
    takers = Queue.objects.using(using).filter(takes_dead_letters()).order_by().values_list("pk", flat=True)
    return dead_letters() | (in_state(State.READY) & Q(queue__in=sorted(takers)))


def check_target(queue: str, *, using: str) -> None:
    """Return if the queue takes messages. Raises UnknownQueue, QueueClosed."""
    if record_of(shared_store(using), queue).closed:
        raise closed(queue)


def redrive_rows(ids: Sequence[int], *, to: str | None = None, using: str) -> Redriven:
    """Redrive the dead letters among these rows, of any queue; with ``to``, move all of them. Other rows stay."""
    done = Redriven()
    for start in range(0, len(ids), BATCH):
        done.moved += _send_all(ids[start : start + BATCH], to, done, using)
    return done


def origin_of(queue: str, headers: Any) -> str:
    """Return the queue in which a message of this queue died, by its headers: text or decoded. Else this queue."""
    if isinstance(headers, str):
        try:
            headers = json.loads(headers)
        except (ValueError, RecursionError):
            return queue
    origin = headers.get(ORIGIN_QUEUE) if isinstance(headers, dict) else None
    return str(origin or queue)


def batches(found: QuerySet[Any], limit: int | None) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows that are there now, once each, by arrival. The primary key is the first value of a row."""
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


def _send_all(ids: Sequence[int], to: str | None, done: Redriven, alias: str) -> list[Moved]:
    store = shared_store(alias)
    restart_attempts(store, ids)
    moved: list[Moved] = []
    for (source, target), group in ways(ids, to, using=alias).items():
        went = send(store, group, source, target)
        moved += went
        if went:
            done.back[target] = done.back.get(target, 0) + len(went)
            hint([target], using=alias)
    done.stayed += len(ids) - len(moved)
    return moved


def ways(ids: Sequence[int], to: str | None = None, *, using: str) -> dict[tuple[str, str], list[int]]:
    """Return the rows by the queue in which they are and the queue to which a redrive sends them.

    Without the target ``to``, only dead letters are sent.
    """
    # The database reads the headers: those that are not JSON must not keep the other rows here.
    origins = KeyTextTransform(ORIGIN_QUEUE, ReadableHeaders())
    rows = Message.objects.using(using).filter(id__in=ids).order_by("id")
    rows = rows.filter(dead_letters()) if to is None else rows
    found = rows.values_list("id", "state", "queue__name", origins)
    ways = defaultdict[tuple[str, str], list[int]](list)
    for row_id, state, queue, origin in found:
        home = queue if state == State.DEAD.value else origin or queue
        ways[queue, to or home].append(row_id)
    return ways


def send(store: Store, ids: Sequence[int], source: str, target: str) -> list[Moved]:
    """Move rows to another queue, or make them ready again in their own; return those that went."""
    try:
        return store.operations.redrive(ids) if target == source else store.operations.move(ids, target)
    except (UnknownQueue, QueueClosed, QueueFull):
        # The other rows can go. A publisher may have written any name into the header.
        return []


def restart_attempts(store: Store, ids: Sequence[int]) -> None:
    """Let the attempts that headers count begin again, of the dead letters among these rows.

    Celery counts the retries of a task, and RabbitMQ's ``x-death`` the rounds of a cycle.
    """
    dead = Message.objects.using(store.alias).filter(dead_letters(), id__in=ids)
    retries = KeyTextTransform(RETRIES, ReadableHeaders())
    tasks = dead.filter(*map(having, sorted(TASK_HEADERS))).annotate(retries=retries).exclude(retries="0")
    if retried := list(tasks.values_list("pk", flat=True)):
        store.operations.set_header(retried, RETRIES, 0)
    if sent := list(dead.filter(having(DEATHS)).values_list("pk", flat=True)):
        store.operations.set_header(sent, DEATHS, None)
