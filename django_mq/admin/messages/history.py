"""Finished messages, and failed attempts with their tracebacks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models.functions import Left
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.filters import (
    AttemptGroupFilter,
    BeforeFilter,
    ExceptionFilter,
    FailedFilter,
    FailingWorkerFilter,
    FinishedFilter,
    FinishingWorkerFilter,
    PastTypeFilter,
    QueueNameFilter,
)
from django_mq.admin.messages import failures, life
from django_mq.admin.overview import by_type
from django_mq.admin.paginator import BoundedPaginator, MessageRows
from django_mq.admin.panels import panels_of
from django_mq.admin.table import IdSearch, ReadOnly
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages import payload
from django_mq.diagnosis.messages.criteria import put_together
from django_mq.diagnosis.messages.terms import SHORT, newest_of

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.models import Attempt, History

#: The most rows that a search finds.
MOST_FOUND = 1_000
#: The first fields on the page of a finished message.
IDENTITY = ("message_id", "queue_name", "outcome", "type", "correlation_id")


class HistoryAdmin(ReadOnly, IdSearch):
    pages = {"types/": by_type.page, "types.json": by_type.as_json}
    paginator = BoundedPaginator
    late = ["body"]
    list_display = [
        *("short_id", "queue_shown", "outcome", "type_shown"),
        *("priority", "attempts", "waited", "ran", "finished"),
    ]
    list_filter = ["outcome", QueueNameFilter, PastTypeFilter, FinishingWorkerFilter, FinishedFilter, BeforeFilter]
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": [*IDENTITY, ("priority", "attempts", "delivered_again")]}),
        (
            gettext_lazy("Times"),
            {"fields": [("published_at", "ready_at", "claimed_at", "finished_at"), ("waited", "ran")]},
        ),
        (gettext_lazy("Worker"), {"fields": ["session_id"]}),
    ]
    change_form_template = "admin/django_mq/history/change_form.html"
    search_help_text = gettext_lazy(
        "Search for a message id. Among the newest 100,000 rows, also for the 8 characters of an id that lists "
        "show, or for a correlation id."
    )

    short_id = columns.id_column
    queue_shown = columns.name_column("queue_name", gettext_lazy("queue"))
    type_shown = columns.name_column("type", gettext_lazy("type"))
    delivered_again = columns.yes_no_column("redelivered", gettext_lazy("redelivered"))
    finished = columns.ago_column("finished_at", gettext_lazy("finished"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002 - Django's signature
        return MessageRows

    def get_queryset(self, request: HttpRequest) -> QuerySet[History]:
        return super().get_queryset(request).defer("headers", "body")

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows with this id. It queries each kind of id alone: an OR may read the whole table."""
        newest, short = newest_of(queryset), SHORT.fullmatch(term)
        found = _ids(newest.filter(correlation_id=term))
        if short is not None:
            found = put_together([_ids(newest.filter(message_id__endswith=short[1].lower())), found])
        with suppress(ValueError):  # the term is not a UUID
            found = put_together([_ids(queryset.filter(message_id=UUID(term))), found])
        return queryset.filter(pk__in=list(found[:MOST_FOUND]))

    @admin.display(description=gettext_lazy("waited"))
    def waited(self, row: History) -> str:
        end = row.claimed_at or row.finished_at
        return LOCAL.precise((end - row.ready_at).total_seconds())

    @admin.display(description=gettext_lazy("held"))
    def ran(self, row: History) -> str:
        return LOCAL.precise((row.finished_at - row.claimed_at).total_seconds()) if row.claimed_at else "-"

    def details(self, request: HttpRequest, row: History) -> dict[str, Any]:
        attempts = failures.of_message(row.message_id, row.correlation_id)
        return life.details(self, request, row, attempts) | {
            "headers": payload.headers(payload.raw(row, "headers"), row.queue_name),
            "body": None if row.body is None else payload.body(row.body, queue=row.queue_name),
            "attempts": attempts,
            "panels": panels_of(request, row),
        }


def _ids(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by().values_list("pk", flat=True)


class AttemptAdmin(ReadOnly, IdSearch):
    paginator = BoundedPaginator
    late = ["detail", "traceback"]
    list_display = ["message", "number", "queue_shown", "type_shown", "last_error", "worker_shown", "failed"]
    list_filter = [
        *(QueueNameFilter, PastTypeFilter, ExceptionFilter, AttemptGroupFilter),
        *(FailingWorkerFilter, FailedFilter, BeforeFilter),
    ]
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": ["message_id", "correlation_id", "queue_name", "type", "number"]}),
        (None, {"fields": ["failed_at", "worker", "error_path"]}),
    ]
    change_form_template = "admin/django_mq/attempt/change_form.html"

    queue_shown = columns.name_column("queue_name", gettext_lazy("queue"))
    type_shown = columns.name_column("type", gettext_lazy("type"))
    worker_shown = columns.name_column("worker", gettext_lazy("worker"))
    failed = columns.ago_column("failed_at", gettext_lazy("failed"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002 - Django's signature
        return MessageRows

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        rows: QuerySet[Attempt] = super().get_queryset(request)
        return rows.defer("detail", "traceback").annotate(head=Left("detail", failures.WORDS + 1))

    @admin.display(description=gettext_lazy("error"))
    def last_error(self, attempt: Any) -> str:
        return failures.words(attempt.error, attempt.head, attempt.failed_at)

    @admin.display(description=gettext_lazy("message"))
    def message(self, attempt: Attempt) -> str:
        return columns.short_id(attempt.message_id) if attempt.message_id else str(attempt.correlation_id)

    def details(self, request: HttpRequest, row: Attempt) -> dict[str, Any]:
        every = failures.of_message(row.message_id, row.correlation_id)
        return life.details(self, request, row, every) | {"attempts": [failures.shown(row)]}
