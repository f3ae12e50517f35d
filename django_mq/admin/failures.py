"""The failed attempts of a message, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from django_mq.admin.table import alias
from django_mq.models import Attempt
from django_mq.stores.texts import told

if TYPE_CHECKING:
    from uuid import UUID

#: Attempts shown on one page.
LIMIT = 50


def of_message(message_id: UUID, correlation_id: str | None) -> list[Attempt]:
    """Return what failed under either id: a Celery task keeps its correlation id when it is sent again."""
    mine = Q(message_id=message_id)
    if correlation_id:
        mine |= Q(correlation_id=correlation_id)
    return [shown(attempt) for attempt in Attempt.objects.using(alias()).filter(mine)[:LIMIT]]


def shown(attempt: Attempt) -> Attempt:
    """Return the attempt with no more of its words than a page can bear; versions before stored all of them."""
    attempt.detail, attempt.traceback = told(attempt.detail), told(attempt.traceback)
    return attempt
