"""Move many messages from one queue to another, in batches: no transaction grows with the backlog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.hints import hint
from django_mq.delivery.operator.recalls import recalled
from django_mq.delivery.operator.redrives import restart_attempts
from django_mq.delivery.queues import record_of
from django_mq.engine.states import State
from django_mq.errors import InvalidMessage, QueueFull
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.db.models import QuerySet

    from django_mq.stores.records import Moved

#: Messages moved by one transaction.
BATCH = 500
#: The order of a move: that of delivery, as far as an index serves it.
ORDER = {
    State.READY: ("-level", "place", "id"),
    State.SCHEDULED: ("deliver_at", "id"),
    State.DEAD: ("id",),
}


def _at_once(_ids: Sequence[int], send: Callable[[], list[Moved]]) -> list[Moved]:
    return send()


def move_all(
    source: str,
    target: str,
    *,
    state: State = State.DEAD,
    limit: int | None = None,
    using: str | None = None,
    each: Callable[[Sequence[int], Callable[[], list[Moved]]], list[Moved]] = _at_once,
) -> int:
    """Move the messages of one state, at most ``limit``, to the tail of another queue; return how many were moved.

    Of ready messages, those are moved, too, that native workers have not begun, except in a transaction.
    Messages that arrive meanwhile stay, and so do duplicates of the target's, and those for which the target has
    no capacity. ``each`` is called with the rows of a batch, and with what moves them.

    Raises UnknownQueue, QueueClosed, QueueFull if none can be moved, and InvalidMessage for one
    queue.
    """
    alias = using or conf.load().DATABASE
    waiting = _messages(source, target, state, alias)
    with recalled([source] if state is State.READY else (), using=alias):
        return _move(waiting.order_by(*ORDER[state]), target, limit, alias, each)


def _move(
    waiting: QuerySet[Message],
    target: str,
    limit: int | None,
    alias: str,
    each: Callable[[Sequence[int], Callable[[], list[Moved]]], list[Moved]],
) -> int:
    newest = waiting.order_by("-id").values_list("id", flat=True).first()
    moved, stayed = 0, set[int]()
    while newest is not None and (limit is None or moved < limit):
        wanted = BATCH if limit is None else min(BATCH, limit - moved)
        found = waiting.filter(id__lte=newest).exclude(id__in=stayed)
        ids = list(found.values_list("id", flat=True)[:wanted])
        if not ids:
            break
        try:
            changed = len(each(ids, partial(_send, ids, target, alias)))
        except QueueFull:
            if moved:
                break
            raise
        moved += changed
        if changed < len(ids):
            # Duplicates of the target's, or claimed meanwhile: not tried again.
            stayed.update(waiting.filter(id__in=ids).values_list("id", flat=True))
        hint([target], using=alias)
    return moved


def _send(ids: Sequence[int], target: str, alias: str) -> list[Moved]:
    store = shared_store(alias)
    restart_attempts(store, ids)
    return store.operations.move(ids, target)


def count_movable(source: str, target: str, *, state: State, limit: int, using: str | None = None) -> int:
    """Return how many messages ``move_all`` would try, counting up to ``limit``. Raises as ``move_all`` does."""
    alias = using or conf.load().DATABASE
    return _messages(source, target, state, alias)[:limit].count()


def _messages(source: str, target: str, state: State, alias: str) -> QuerySet[Message]:
    if source == target:
        raise InvalidMessage(f"Queue {source!r} is both source and target.")
    store = shared_store(alias)
    record_of(store, target)
    return Message.objects.using(alias).filter(queue_id=record_of(store, source).id, state=state.value)
