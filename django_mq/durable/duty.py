"""What the maintenance does for durable handlers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Exists, OuterRef

from django_mq.durable.events import free
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.engine.decisions.durable import StepOutcome
from django_mq.engine.decisions.ends import End
from django_mq.models import Message
from django_mq.models.deletion import delete_first
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.ends import Ended

#: How long records without a message are kept, whose end was not told.
ORPHAN_SECONDS: Final = 7 * 86400.0
#: How long the row of an event is kept that nothing waits for and that was not emitted.
UNUSED_SECONDS: Final = 3600.0


def wake(store: Any, limit: int) -> int:
    """Bring back messages whose event was emitted while something else had locked them; return how many."""
    waiting = DurableStep.objects.using(store.alias).filter(
        outcome=StepOutcome.OPEN.value, event__emitted_at__isnull=False, event__expires_at__gt=clock.now()
    )
    return free(store.alias, waiting.values_list("queue_name", "event_id")[:limit])


def prune_events(store: Any, limit: int) -> int:
    """Delete events whose time to live is over, and rows that nothing waits for; return how many."""
    now = clock.now()
    rows = DurableEvent.objects.using(store.alias)
    waits = Exists(DurableStep.objects.filter(event=OuterRef("pk"), outcome=StepOutcome.OPEN.value))
    unused_since = now - timedelta(seconds=UNUSED_SECONDS)
    deleted = 0
    for old in (rows.filter(expires_at__lt=now), rows.filter(expires_at=None, waited_at__lt=unused_since)):
        deleted += delete_first(old.filter(~waits), limit - deleted)
    return deleted


def prune_steps(store: Any, limit: int) -> int:
    """Delete records whose message is gone, and was gone without a word; return how many."""
    rows = DurableStep.objects.using(store.alias)
    old = rows.filter(recorded_at__lt=clock.now() - timedelta(seconds=ORPHAN_SECONDS))
    gone = old.filter(~Exists(Message.objects.filter(message_id=OuterRef("message_id"))))
    return delete_first(gone.order_by("recorded_at"), limit)


#: The ends of a message that does not come back; one that is accepted has forgotten its records itself.
GONE: Final = frozenset({End.CANCELLED, End.EXPIRED, End.PURGED, End.REPLACED})


def follow(store: Any, ended: Sequence[Ended]) -> None:
    """Forget the records of messages that are gone, and take along those of moved ones."""
    for each in ended:
        message = {"message_id": each.message_id, "queue": each.queue}
        if each.end in GONE:
            store.database.rows("forget_steps", **message)
        elif each.new_row is not None:
            store.database.rows("follow_message", new_row=each.new_row, **message)
