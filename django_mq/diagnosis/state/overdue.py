"""How many rows of the past ``mq_prune`` would delete."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, ExpressionWrapper, OuterRef, Q

from django_mq.models import Attempt, History, Message, Queue
from django_mq.models.times import UTCDateTimeField, UTCNow

#: Days to keep history without a queue, and failed attempts. The statements of the stores say the same.
ORPHANED_HISTORY_DAYS = 7.0
ATTEMPT_DAYS = 30.0


def overdue(*, limit: int, using: str) -> dict[str, int]:
    """Return how many rows of the history and of the failed attempts are overdue, each counted up to ``limit``."""
    history = History.objects.using(using).filter(over(using))
    attempts = Attempt.objects.using(using).filter(_before("failed_at", ATTEMPT_DAYS))
    alive = Message.objects.using(using).filter(message_id=OuterRef("message_id"))
    gone = attempts.filter(~Exists(alive))
    return {"history": history.order_by()[:limit].count(), "attempts": gone.order_by()[:limit].count()}


def over(alias: str) -> Q:
    """Return the filter for the rows of the history that ``mq_prune`` and the maintenance delete."""
    keep = dict(Queue.objects.using(alias).values_list("name", "history_days"))
    found = ~Q(queue_name__in=keep) & _before("finished_at", ORPHANED_HISTORY_DAYS)
    for days in set(keep.values()):
        names = [name for name, kept in keep.items() if kept == days]
        found |= Q(queue_name__in=names) & _before("finished_at", days)
    return found


def _before(when: str, days: float) -> Q:
    # By the database's clock, as the prune itself.
    border = ExpressionWrapper(UTCNow() - timedelta(days=days), output_field=UTCDateTimeField())
    return Q(**{f"{when}__lt": border})
