"""The keys over their limits: how many messages of each are parked, since when, and when the next one begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db.models import Count, Min

from django_mq.engine.decisions.keyed_limits import PARKED_SECONDS, parking_key
from django_mq.models import LimitKey, LimitSlot, Message, Queue
from django_mq.models.message import in_state
from django_mq.stores.records import PARK_KEY_LENGTH, storable

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import QuerySet

#: How many messages of a key are counted, and how many keys are returned.
SAMPLE: Final = 10_000
MOST: Final = 50


@dataclass(frozen=True, slots=True)
class WaitingKey:
    """A key of a limit for which messages are parked; blank for a limit of the whole queue."""

    queue: str
    limit: str
    key: str
    #: Counted up to ``SAMPLE``.
    parked: int
    #: When the first of these was parked; again after an hour.
    since: datetime | None
    #: When the next one may begin; None: when one that runs ends.
    next_at: datetime | None


def waiting_keys(queue: str | None, most: int = MOST, *, using: str) -> list[WaitingKey]:
    """Return the keys that wait, of a queue or of all, in order. Three statements, and one for each key."""
    rows = _waiting(using).order_by("queue_name", "limit_name", "limited_key")
    if queue is not None:
        rows = rows.filter(queue_name=queue)
    found = list(rows[:most])
    ids = dict(
        Queue.objects.using(using).filter(name__in={row.queue_name for row in found}).values_list("name", "pk")
    )
    slots = LimitSlot.objects.using(using).filter(queue_name__in=ids)
    running = {*slots.values_list("queue_name", "limit_name", "limited_key")}
    return [_told(row, ids[row.queue_name], running, using) for row in found if row.queue_name in ids]


def numbers_of_waiting(queues: Collection[str], *, using: str) -> list[tuple[str, str, int]]:
    """Return how many keys wait of each limit of these queues, as queue, limit and number. One statement."""
    rows = _waiting(using).filter(queue_name__in=queues).values_list("queue_name", "limit_name")
    return list(rows.annotate(number=Count("pk")).order_by("queue_name", "limit_name"))


def keys_waiting(*, using: str) -> tuple[int, str]:
    """Return how many keys wait, and the queue with most of them, blank if none does. One statement."""
    rows = _waiting(using).filter(queue_name__in=Queue.objects.using(using).values("name"))
    counted = dict(rows.values_list("queue_name").annotate(number=Count("pk")).order_by("queue_name"))
    return sum(counted.values()), max(counted, key=lambda name: counted[name], default="")


def _waiting(using: str) -> QuerySet[LimitKey]:
    return LimitKey.objects.using(using).filter(waiting_until__isnull=False)


def _told(row: LimitKey, queue_id: int, running: Collection[tuple[str, str, str]], using: str) -> WaitingKey:
    key = storable(parking_key((row.limit_name, row.limited_key)), PARK_KEY_LENGTH)
    parked = Message.objects.using(using).filter(in_state(Message.Status.PARKED), queue_id=queue_id, park_key=key)
    told = parked.order_by()[:SAMPLE].aggregate(number=Count("pk"), until=Min("parked_until"))
    since = None if told["until"] is None else told["until"] - timedelta(seconds=PARKED_SECONDS)
    waits_for_slot = not row.waiting_until or (row.queue_name, row.limit_name, row.limited_key) in running
    next_at = None if waits_for_slot else datetime.fromtimestamp(row.waiting_until or 0.0, UTC)
    return WaitingKey(row.queue_name, row.limit_name, row.limited_key, told["number"], since, next_at)
