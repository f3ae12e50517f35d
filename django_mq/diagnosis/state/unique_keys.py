"""Unique keys: which are held, and by which message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, Value, When

from django_mq.models import Message, UniqueKey
from django_mq.models.run import BegunTask
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from django.db.models import QuerySet


#: How many keys are looked at, from any digest on, and how old they are when they are named.
SAMPLE: Final = 200
LONG: Final = timedelta(days=1)


def with_standing(keys: QuerySet[UniqueKey]) -> QuerySet[Any]:
    """Return keys with ``is_free``: no message is there any longer, or the time has passed."""
    of_key = Message.objects.filter(message_id=OuterRef("message_id"))
    run = BegunTask.objects.filter(message_id=OuterRef("message_id"))
    is_over = Q(until=UniqueKey.Until.WINDOW, ends_at__lte=UTCNow())
    is_gone = ~Q(until=UniqueKey.Until.WINDOW) & ~Exists(of_key) & ~Exists(run)
    is_free = Case(When(is_over | is_gone, then=Value(True)), default=Value(False), output_field=BooleanField())
    told: QuerySet[Any] = keys.annotate(is_free=is_free)
    return told


def long_held(*, using: str) -> list[UniqueKey]:
    """Return keys of messages that neither finish nor wait for a time, held for longer than a day; of a sample."""
    since = datetime.now(UTC) - LONG
    some = UniqueKey.objects.using(using).filter(digest__gte=token_hex()).order_by("digest")[:SAMPLE]
    old = [key for key in some if key.until != UniqueKey.Until.WINDOW and key.first_at < since]
    if not old:
        return []
    stuck = Message.objects.using(using).filter(
        message_id__in=[key.message_id for key in old], state__in=(Message.Status.READY, Message.Status.CLAIMED)
    )
    found = set(stuck.values_list("message_id", flat=True))
    return [key for key in old if key.message_id in found]


def held_keys(name: str | None, limit: int, *, using: str) -> list[Any]:
    """Return the keys that are held: those of this name, or of the message or Celery task with this id; or all."""
    keys = with_standing(UniqueKey.objects.using(using)).filter(is_free=False)
    if name is not None:
        keys = keys.filter(Q(label=name) | Q(owner=name))
    return list(keys.order_by("digest")[:limit])
