"""The failed attempts of a message; and, for lists, how many there are, the first and the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Left
from django.utils.html import format_html

from django_mq.admin import columns
from django_mq.admin.table import alias
from django_mq.diagnosis.language import time_text
from django_mq.engine.states import REJECTED
from django_mq.models import Attempt, Message
from django_mq.stores.records import told

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

#: The most attempts on a page.
LIMIT = 50
#: The most characters of an error in a list.
WORDS = 60
#: The most characters of a reason.
LONGEST_REASON = 255


def of_message(message_id: UUID | None, correlation_id: str | None) -> list[Attempt]:
    """Return the attempts, newest first. A Celery task keeps its correlation id when it is sent again."""
    mine = Q(message_id=message_id) if message_id else Q()
    if correlation_id:
        mine |= Q(correlation_id=correlation_id)
    return [shown(attempt) for attempt in Attempt.objects.using(alias()).filter(mine)[:LIMIT]]


def shown(attempt: Attempt) -> Attempt:
    """Return the attempt with its texts cut: earlier versions stored them whole."""
    attempt.detail, attempt.traceback = told(attempt.detail), told(attempt.traceback)
    return attempt


class FailedAttempt(NamedTuple):
    error: str
    detail: str
    failed_at: datetime


class FailedAttempts(NamedTuple):
    attempts: int = 0
    first: FailedAttempt | None = None
    last: FailedAttempt | None = None


def summarise(messages: Iterable[Message]) -> None:
    """Set ``failures`` of each message: three statements for all of them."""
    rows, attempts = list(messages), Attempt.objects.using(alias()).order_by()
    ids = {"message_id__in": [row.message_id for row in rows]}
    tasks = {"correlation_id__in": [row.correlation_id for row in rows if row.correlation_id]}
    # Both ids, the number of attempts with them, and the keys of the first and the last one.
    spans = {
        values
        for which in (ids, tasks)
        for values in attempts.filter(**which)
        .values_list("message_id", "correlation_id")
        .annotate(Count("pk"), Min("pk"), Max("pk"))
    }
    of = {
        row.pk: [
            numbers
            for message_id, task_id, *numbers in spans
            if message_id == row.message_id or (row.correlation_id and task_id == row.correlation_id)
        ]
        for row in rows
    }
    ends = {key for found in of.values() for _number, *keys in found for key in keys}
    columns = ("pk", "error", Left("detail", WORDS + 1), "failed_at")
    failures = {pk: FailedAttempt(*values) for pk, *values in attempts.filter(pk__in=ends).values_list(*columns)}
    for row in rows:
        if mine := of[row.pk]:
            numbers, firsts, lasts = zip(*mine, strict=True)
            row.failures = FailedAttempts(sum(numbers), failures.get(min(firsts)), failures.get(max(lasts)))  # type: ignore[attr-defined] # for this page


def reason_of(message: Message, error: str, detail: str) -> str:
    """Return why a message is dead: the exception of its last attempt where the reason only says that it failed.

    Celery rejects a task without a word of its exception.
    """
    if error and message.dead_reason in {"", REJECTED}:
        return f"{error}: {detail}"[:LONGEST_REASON] if detail else error
    return message.dead_reason


def of_row(message: Message) -> FailedAttempts:
    return getattr(message, "failures", FailedAttempts())


def words(error: str, detail: str, failed_at: datetime) -> str:
    """Return the error and the beginning of its text, with its time on hover."""
    cut = f"{detail[:WORDS]}…" if len(detail) > WORDS else detail
    shown = columns.breakable(f"{error}: {cut}" if cut else error)
    return format_html('<span class="mq-clip" title="{}">{}</span>', time_text(failed_at), shown)
