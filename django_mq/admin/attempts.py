"""Failed attempts, each with its traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, failures
from django_mq.admin.filters import (
    BeforeFilter,
    ExceptionFilter,
    FailingWorkerFilter,
    PastTypeFilter,
    QueueNameFilter,
)
from django_mq.admin.paging import BoundedPaginator
from django_mq.admin.search import IdSearch
from django_mq.admin.span_filter import FailedFilter
from django_mq.admin.table import ReadOnly

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.models import Attempt


class AttemptAdmin(ReadOnly, IdSearch):
    """What failed, newest first."""

    paginator = BoundedPaginator
    late = ["detail", "traceback"]
    list_display = ["message", "number", "queue_name", "type", "error", "worker", "failed"]
    list_filter = [
        QueueNameFilter,
        PastTypeFilter,
        ExceptionFilter,
        FailingWorkerFilter,
        FailedFilter,
        BeforeFilter,
    ]
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (
            None,
            {"fields": ["message_id", "correlation_id", "queue_name", "type", "number", "failed_at", "worker"]},
        ),
    ]
    change_form_template = "admin/django_mq/attempt/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        return super().get_queryset(request).defer("detail", "traceback")

    @admin.display(description=gettext_lazy("message"))
    def message(self, attempt: Attempt) -> str:
        return columns.short_id(attempt.message_id) if attempt.message_id else str(attempt.correlation_id)

    @admin.display(description=gettext_lazy("failed"))
    def failed(self, attempt: Attempt) -> str:
        return columns.ago(attempt.failed_at)

    def details(self, request: HttpRequest, row: Attempt) -> dict[str, Any]:  # noqa: ARG002 - as everywhere
        return {"attempts": [failures.shown(row)]}
