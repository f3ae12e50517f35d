"""The failed attempts of a message; and, for lists, how many there are, the first and the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Left

from django_mq.admin.table import alias
from django_mq.models import Attempt, Message
from django_mq.stores.values import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

#: The most attempts on a page.
LIMIT = 50
#: The most characters of an error in a list.
WORDS = 60


def of_message(message_id: UUID, correlation_id: str | None) -> list[Attempt]:
    """Return the attempts, newest first. A Celery task keeps its correlation id when it is sent again."""
    mine = Q(message_id=message_id)
    if correlation_id:
        mine |= Q(correlation_id=correlation_id)
    return [shown(attempt) for attempt in Attempt.objects.using(alias()).filter(mine)[:LIMIT]]


def shown(attempt: Attempt) -> Attempt:
    """Return the attempt with its texts cut: earlier versions stored them whole."""
    attempt.detail, attempt.traceback = told(attempt.detail), told(attempt.traceback)
    return attempt


class Failure(NamedTuple):
    error: str
    detail: str
    failed_at: datetime


class Summary(NamedTuple):
    attempts: int = 0
    first: Failure | None = None
    last: Failure | None = None


class _Span(NamedTuple):
    """Attempts with the same two ids: their number, and the keys of the first and the last."""

    message_id: UUID | None
    correlation_id: str | None
    attempts: int
    first: int
    last: int


def summarise(messages: Iterable[Message]) -> None:
    """Set ``failures`` of each message: three statements for all of them."""
    rows = list(messages)
    spans = _spans(rows)
    of = {row.pk: [span for span in spans if _is_of(span, row)] for row in rows}
    told = _told({key for found in of.values() for span in found for key in (span.first, span.last)})
    for row in rows:
        if mine := of[row.pk]:
            first, last = min(span.first for span in mine), max(span.last for span in mine)
            row.failures = Summary(sum(span.attempts for span in mine), told.get(first), told.get(last))  # type: ignore[attr-defined] # for this page


def of_row(message: Message) -> Summary:
    return getattr(message, "failures", Summary())


def _spans(rows: Iterable[Message]) -> set[_Span]:
    """Return the attempts of these messages, without duplicates."""
    ids = {"message_id__in": [row.message_id for row in rows]}
    tasks = {"correlation_id__in": [row.correlation_id for row in rows if row.correlation_id]}
    return {
        _Span(*values)
        for which in (ids, tasks)
        for values in Attempt.objects.using(alias())
        .filter(**which)
        .order_by()
        .values_list("message_id", "correlation_id")
        .annotate(Count("pk"), Min("pk"), Max("pk"))
    }


def _is_of(span: _Span, row: Message) -> bool:
    return span.message_id == row.message_id or bool(
        row.correlation_id and span.correlation_id == row.correlation_id
    )


def _told(keys: set[int]) -> Mapping[int, Failure]:
    found = Attempt.objects.using(alias()).filter(pk__in=keys).order_by()
    return {
        pk: Failure(*values)
        for pk, *values in found.values_list("pk", "error", Left("detail", WORDS + 1), "failed_at")
    }
