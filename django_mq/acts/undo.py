"""Put back what a move or a redrive has sent, as far as it is still there.

What was moved goes to the tail of the queue that it came from. What was a dead letter is one again, dead since
now. Messages that workers have begun, that are dead since, or that have left, stay as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.acts.models import ActedMessage
from django_mq.acts.recorder import remember
from django_mq.delivery.operator import actions
from django_mq.delivery.operator.actions import in_delivery_order, rows_of
from django_mq.delivery.operator.recalls import recalled
from django_mq.engine.decisions.acts import UNDONE, WayBack, way_back
from django_mq.engine.states import CLAIMED, DEAD, State
from django_mq.errors import MQError, QueueClosed, QueueFull, UnknownQueue
from django_mq.models import Message
from django_mq.models.times import UTCNow
from django_mq.stores.records import Moved
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from django_mq.acts.models import Act
    from django_mq.delivery.operator.actions import ActionTarget

#: Messages put back by one transaction.
BATCH = 500


class Undone(NamedTuple):
    """What an undo has done."""

    back: int
    #: How many stayed, by the reason: "held", "dead", "gone" or "refused".
    left: Mapping[str, int]

    @property
    def asked(self) -> int:
        return self.back + sum(self.left.values())


def remembered(act: Act, *, using: str) -> int:
    """Return how many messages of an act can be put back, if they are still there."""
    return left_of(act, using).count() if act.name in UNDONE else 0


def left_of(act: Act, using: str) -> QuerySet[ActedMessage]:
    return ActedMessage.objects.using(using).filter(act=act.pk, undone=False)


def undo(act: Act, record: Act, *, using: str) -> Undone:
    """Put back the messages of an act, and write that as the act ``record``. Raises MQError if nothing can be."""
    if not remembered(act, using=using):
        raise MQError(f"Act {act.pk} cannot be undone: a move or a redrive can, once, as long as it is kept.")
    record.undoes = act
    rows = left_of(act, using)
    back, stayed, last = 0, Counter[str](), 0
    held = Message.objects.using(using).filter(pk__in=rows.values("row_id"), state=CLAIMED.value)
    with recalled(set(held.order_by().values_list("queue__name", flat=True)), using=using):
        while batch := list(rows.filter(pk__gt=last).order_by("pk")[:BATCH]):
            last = batch[-1].pk
            back += _put_back(batch, record, stayed, using)
    return Undone(back, dict(stayed))


def _put_back(batch: Sequence[ActedMessage], record: Act, stayed: Counter[str], using: str) -> int:
    """Put back what can be of a batch, in one transaction; count what stays by the reason."""
    messages = Message.objects.using(using).filter(pk__in=[each.row_id for each in batch if each.row_id])
    with shared_store(using).database.transaction():
        # A second undo waits here, and then finds the messages where they came from.
        list(messages.select_for_update().order_by("pk").values_list("pk"))
        now = {row.id: row for row in rows_of(messages)}
        ways = defaultdict[tuple[WayBack, str], list[ActedMessage]](list)
        for each in batch:
            row = now.get(each.row_id or 0)
            if row is None or row.queue != each.went_to:
                stayed["gone"] += 1
                continue
            way = way_back(State(row.state), came_from=each.came_from, is_in=row.queue)
            if way in {WayBack.HELD, WayBack.DEAD}:
                stayed[way.value] += 1
            else:
                ways[way, each.came_from].append(each)
        back = 0
        for (way, queue), chosen in ways.items():
            moved = _moved(way, queue, [now[each.row_id or 0] for each in chosen], using)
            there = {each.id: each.new_id for each in moved}
            returned = [each for each in chosen if each.row_id in there]
            _bury(returned, there, using)
            stayed["refused"] += len(chosen) - len(returned)
            if returned:
                ActedMessage.objects.using(using).filter(pk__in=[each.pk for each in returned]).update(undone=True)
                remember(record, [now[each.id] for each in moved], moved, {}, using=using)
            back += len(returned)
    return back


def _moved(way: WayBack, queue: str, rows: Sequence[ActionTarget], using: str) -> list[Moved]:
    if way is WayBack.BURY:
        return [Moved(row.id, row.id, row.queue) for row in rows]
    try:
        return actions.move(in_delivery_order(rows), queue, using=using)
    except (UnknownQueue, QueueClosed, QueueFull):
        # The messages for other queues can go.
        return []


def _bury(returned: Iterable[ActedMessage], there: Mapping[int, int | None], using: str) -> None:
    """Make dead letters of those that were: in their place, or with a reason, as in a dead-letter queue."""
    kinds = defaultdict[tuple[bool, str], list[int]](list)
    for each in returned:
        row_id = there[each.row_id or 0]
        if row_id is not None and (each.was_dead or each.dead_reason):
            kinds[each.was_dead, each.dead_reason].append(row_id)
    for (was_dead, reason), ids in kinds.items():
        given: dict[str, Any] = {"dead_reason": reason}
        if was_dead:
            given |= {"state": DEAD.value, "dead_at": UTCNow(), "suspect": False}
            given |= {"park_key": None, "parked_until": None}
        Message.objects.using(using).filter(pk__in=ids).exclude(state=CLAIMED.value).update(**given)
