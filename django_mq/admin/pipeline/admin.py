"""The batches of the archive, and the loads that the pipeline has published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Sum
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, menu
from django_mq.admin.paginator import BoundedPaginator
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.diagnosis.language import exact
from django_mq.models import BulkPart

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_mq.models import BulkJob


class SparkPages:
    """A mixin for a ModelAdmin: its pages are in the menu only where Spark is installed."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return menu.has_spark() and super().has_module_permission(request)  # type: ignore[misc] # of ModelAdmin


class ArchiveBatchAdmin(SparkPages, ReadOnly, TableAdmin):
    planned = columns.ago_column("planned_at", gettext_lazy("planned at"))
    list_display = ["id", "state", "rows", "purged_rows", "cutoff", "path", "planned"]
    list_filter = ["state"]
    sortable_by = ()
    fieldsets = [
        (None, {"fields": ["state", "active", "fault", "rows", "purged_rows", "root", "path", "days", "signed"]}),
        (None, {"fields": ["first_id", "last_id", "cutoff", "planned_at", "written_at", "purged_at"]}),
        (None, {"fields": ["attempt", "holder", "lease_until"]}),
    ]


class BulkJobAdmin(SparkPages, ReadOnly, TableAdmin):
    paginator = BoundedPaginator
    started = columns.ago_column("started_at", gettext_lazy("started at"))
    list_display = ["key", "parts", "query_id", "started", "finished_at"]
    search_fields = ["key"]
    sortable_by = ()
    fieldsets = [(None, {"fields": ["key", "parts", "query_id", "started_at", "finished_at", "published"]})]

    @admin.display(description=gettext_lazy("messages"))
    def published(self, job: BulkJob) -> str:
        return exact(published(job))


def published(job: BulkJob) -> int:
    """Return how many messages of the load have been published."""
    lines = BulkPart.objects.using(alias()).filter(job=job)
    return int(lines.aggregate(total=Sum("rows"))["total"] or 0)
