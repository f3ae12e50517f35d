"""The queues that would not deliver, or not take, the dead letters that a redrive returns to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from django_mq.diagnosis.state.alerts import is_full
from django_mq.diagnosis.state.overview import overview
from django_mq.models import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.diagnosis.state.overview import QueueState


def obstacles(names: Sequence[str], *, using: str) -> list[QueueState]:
    """Return the queues, paused or full, to which the dead letters of these queues return.

    They are the queues themselves, if they have dead messages, and those whose dead letters they take.
    """
    targets = Queue.objects.using(using).filter(Q(name__in=names) | Q(dead_letter_queue__name__in=names))
    found = list(targets.order_by("name").values_list("name", flat=True).distinct())
    states = overview(found, using=using) if found else []
    sources = [state for state in states if state.name not in names or state.dead]
    return [state for state in sources if state.paused or (is_full(state) and state.name not in names)]
