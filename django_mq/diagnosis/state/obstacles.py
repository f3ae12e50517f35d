"""The queues that would not deliver, or not take, the dead letters that a redrive returns to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from django_mq.diagnosis.state.alerts import is_full
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.decisions.dead_letters import DEFAULT_EXCHANGE
from django_mq.models import Binding, Queue

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_mq.diagnosis.state.overview import QueueState


def obstacles(names: Sequence[str], *, using: str) -> list[QueueState]:
    """Return the queues, paused or full, to which the dead letters of these queues return.

    They are the queues themselves, if they have dead messages, and those whose dead or expired messages they take.
    """
    exchanges = Binding.objects.filter(queue__name__in=names).values("exchange")
    sources = (
        Q(dead_letter_queue__name__in=names)
        | Q(expiry_queue__name__in=names)
        | Q(dead_letter_exchange=DEFAULT_EXCHANGE, dead_letter_routing_key__in=names)
        | (Q(dead_letter_exchange__in=exchanges) & ~Q(dead_letter_exchange=""))
    )
    targets = Queue.objects.using(using).filter(Q(name__in=names) | sources)
    found = list(targets.order_by("name").values_list("name", flat=True).distinct())
    states = overview(found, using=using) if found else []
    ends = [state for state in states if state.name not in names or state.dead]
    return [state for state in ends if is_obstacle(state, is_other=state.name not in names)]


def obstacles_on(ways: Collection[tuple[str, str]], *, using: str) -> list[QueueState]:
    """Return the queues, paused or full, at the end of these ways: from the queue of a dead letter to another."""
    others = {target for source, target in ways if source != target}
    wanted = {target for _source, target in ways}
    # A publisher may have written any name into the header.
    rows = Queue.objects.using(using).filter(name__in=wanted)
    found = list(rows.order_by("name").values_list("name", flat=True))
    states = overview(found, using=using) if found else []
    return [state for state in states if is_obstacle(state, is_other=state.name in others)]


def is_obstacle(state: QueueState, *, is_other: bool) -> bool:
    """Return whether dead letters that return to the queue, from another one or not, are kept up."""
    return state.paused or (is_other and is_full(state))
