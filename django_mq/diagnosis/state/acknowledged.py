"""Dead letters that operators have acknowledged, and alerts that they have snoozed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, OuterRef, Q, Subquery

from django_mq.models import AcknowledgedLetter, Message, SnoozedAlert
from django_mq.models.message import dead_letters
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet


def acknowledged_dead_letters(*, using: str) -> QuerySet[Any]:
    """Return the dead letters of which this death was acknowledged, each with the reason as ``acknowledged``."""
    mine = AcknowledgedLetter.objects.filter(row_id=OuterRef("pk"))
    keys = AcknowledgedLetter.objects.using(using).values("row_id")
    rows = Message.objects.using(using).filter(dead_letters(), pk__in=keys).order_by()
    known = rows.annotate(
        acknowledged=Subquery(mine.values("reason")[:1]), known_dead_at=Subquery(mine.values("dead_at")[:1])
    )
    return known.filter(Q(dead_at=F("known_dead_at")) | Q(dead_at=None, known_dead_at=None))


def acknowledged_counts(*, using: str) -> dict[int, int]:
    """Return how many dead letters are acknowledged, by the key of the queue."""
    counted = acknowledged_dead_letters(using=using).values("queue_id").annotate(number=Count("pk"))
    return dict(counted.values_list("queue_id", "number"))


def reasons_of(keys: Iterable[int], *, using: str) -> dict[int, str]:
    """Return why these messages were acknowledged, by their keys; those that were not are left out."""
    found = acknowledged_dead_letters(using=using).filter(pk__in=list(keys))
    return dict(found.values_list("pk", "acknowledged"))


def snoozed(*, using: str) -> dict[tuple[str, str], SnoozedAlert]:
    """Return the alerts that are snoozed now, by their kind and what they are about."""
    active = SnoozedAlert.objects.using(using).filter(until__gt=UTCNow()).order_by("until", "pk")
    return {(one.kind, one.about): one for one in active}
