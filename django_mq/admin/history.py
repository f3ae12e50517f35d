"""History: what became of messages that are finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, failures, payload, timeline
from django_mq.admin.by_type import ByType
from django_mq.admin.durations import duration
from django_mq.admin.filters import BeforeFilter, FinishingWorkerFilter, PastTypeFilter, QueueNameFilter
from django_mq.admin.paging import BoundedPaginator
from django_mq.admin.search import PastSearch
from django_mq.admin.span_filter import FinishedFilter
from django_mq.admin.table import ReadOnly

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.models import History


class HistoryAdmin(ReadOnly, ByType, PastSearch):
    """Finished messages, newest first."""

    paginator = BoundedPaginator
    late = ["body"]
    list_display = [
        "short_id",
        "queue_name",
        "outcome",
        "type",
        "priority",
        "attempts",
        "waited",
        "ran",
        "finished",
    ]
    list_filter = [
        "outcome",
        QueueNameFilter,
        PastTypeFilter,
        FinishingWorkerFilter,
        FinishedFilter,
        BeforeFilter,
    ]
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (
            None,
            {
                "fields": [
                    "message_id",
                    "queue_name",
                    "outcome",
                    "type",
                    "correlation_id",
                    ("priority", "attempts", "redelivered"),
                ]
            },
        ),
        (
            gettext_lazy("Times"),
            {"fields": [("published_at", "ready_at", "claimed_at", "finished_at"), ("waited", "ran")]},
        ),
        (gettext_lazy("Worker"), {"fields": ["session_id"]}),
    ]
    change_form_template = "admin/django_mq/history/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[History]:
        return super().get_queryset(request).defer("headers", "body")

    @admin.display(description=gettext_lazy("message"))
    def short_id(self, row: History) -> str:
        return columns.short_id(row.message_id)

    @admin.display(description=gettext_lazy("finished"))
    def finished(self, row: History) -> str:
        return columns.ago(row.finished_at)

    @admin.display(description=gettext_lazy("waited"))
    def waited(self, row: History) -> str:
        end = row.claimed_at or row.finished_at
        return duration((end - row.ready_at).total_seconds())

    @admin.display(description=gettext_lazy("ran"))
    def ran(self, row: History) -> str:
        return duration((row.finished_at - row.claimed_at).total_seconds()) if row.claimed_at else "-"

    def details(self, request: HttpRequest, row: History) -> dict[str, Any]:  # noqa: ARG002 - as everywhere
        attempts = failures.of_message(row.message_id, row.correlation_id)
        return {
            "headers": payload.headers(payload.raw(row, "headers"), row.queue_name),
            "body": None if row.body is None else payload.body(row.body, queue=row.queue_name),
            "attempts": attempts,
            "timeline": timeline.of_finished(row, attempts),
        }
