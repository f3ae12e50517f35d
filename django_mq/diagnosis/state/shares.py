"""The keys that share a queue: how many messages of each wait, and its weight.

Only the first messages of the queue are read, along the index of the claims.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.diagnosis.messages.indexes import ORDERS
from django_mq.engine.message import Message as EngineMessage
from django_mq.models import Message
from django_mq.models.message import in_state

if TYPE_CHECKING:
    from django_mq.models import Queue

#: The most messages read, and the most keys returned.
SAMPLE = 10_000
MOST = 50


@dataclass(frozen=True, slots=True)
class Share:
    """A key, blank for messages without one."""

    key: str
    waiting: int
    weight: float


def shares(queue: Queue, *, using: str) -> list[Share]:
    """Return the keys that wait or have a weight, the largest first; none if keys do not share the queue."""
    fair = queue.options.fairness
    if fair is None:
        return []
    ready = Message.objects.using(using).filter(in_state(Message.Status.READY), queue_id=queue.pk)
    first = ready.order_by(*ORDERS[Message.Status.READY]).values_list("headers", flat=True)[:SAMPLE]
    waiting = Counter(fair.key_of(EngineMessage(id="", headers=headers)) for headers in first)
    keys = sorted({*waiting, *fair.weights}, key=lambda key: (-waiting[key], key))[:MOST]
    return [Share(key, waiting[key], fair.weight_of(key)) for key in keys]
