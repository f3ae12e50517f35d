"""The admin of the files, read only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from library.models import Import, ShelfReport, SourceFile, Summary

if TYPE_CHECKING:
    from django.http import HttpRequest


class ReadOnly:
    """Only messages write the index."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002 - Django's signature
        """Rows are not added here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:  # noqa: ARG002 - as above
        """Rows are not changed here."""
        return False


class ImportInline(ReadOnly, admin.TabularInline):
    """The modules of a file."""

    model = Import


@admin.register(SourceFile)
class SourceFileAdmin(ReadOnly, admin.ModelAdmin):
    """Files by kind and status."""

    list_display = ["path", "kind", "priority", "status", "lines", "functions", "classes"]
    list_filter = ["status", "kind"]
    search_fields = ["path"]
    inlines = [ImportInline]


@admin.register(Summary)
class SummaryAdmin(ReadOnly, admin.ModelAdmin):
    """The totals."""

    list_display = ["written_at", "files", "broken", "lines", "functions", "classes", "imports"]


@admin.register(ShelfReport)
class ShelfReportAdmin(ReadOnly, admin.ModelAdmin):
    """What the workflow has found."""

    list_display = ["kind", "files", "lines", "most_imported"]
