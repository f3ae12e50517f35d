"""Unique keys: which are held, and by which message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, Value, When

from django_mq.models import Message, UniqueKey
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from django.db.models import QuerySet


def with_standing(keys: QuerySet[UniqueKey]) -> QuerySet[Any]:
    """Return keys with ``is_free``: no message is there any longer, or the time has passed."""
    of_key = Message.objects.filter(message_id=OuterRef("message_id"))
    is_over = Q(until=UniqueKey.Until.WINDOW, ends_at__lte=UTCNow())
    is_gone = ~Q(until=UniqueKey.Until.WINDOW) & ~Exists(of_key)
    is_free = Case(When(is_over | is_gone, then=Value(True)), default=Value(False), output_field=BooleanField())
    told: QuerySet[Any] = keys.annotate(is_free=is_free)
    return told


def held_keys(name: str | None, limit: int, *, using: str) -> list[Any]:
    """Return the keys that are held: those of this name, or of the message or Celery task with this id; or all."""
    keys = with_standing(UniqueKey.objects.using(using)).filter(is_free=False)
    if name is not None:
        keys = keys.filter(Q(label=name) | Q(owner=name))
    return list(keys.order_by("digest")[:limit])
