"""The list of receivers, and the page of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.table import ReadOnly, TableAdmin
from django_mq.engine.decisions.receivers import Carrier, ReceiverCondition, shown_condition
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class ReceiverStateAdmin(ReadOnly, TableAdmin):
    list_display = ["name", "status", "since_shown", "received", "duplicates", "kept", "last_shown", "words"]
    search_fields = ["name"]
    sortable_by = ()
    ordering = ["name"]
    change_form_template = "admin/django_mq/row.html"
    fieldsets = [
        (None, {"fields": ["name", "status", "since", "problem", "holder"]}),
        (None, {"fields": ["received", "duplicates", "kept", "last_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        found: QuerySet[Any] = rows.annotate(now=UTCNow())
        return found

    @admin.display(description=gettext_lazy("since"), empty_value="-")
    def since_shown(self, row: Any) -> str | None:
        return None if row.since is None else columns.ago(row.since)

    @admin.display(description=gettext_lazy("last message"), empty_value="-")
    def last_shown(self, row: Any) -> str | None:
        return None if row.last_at is None else columns.ago(row.last_at)

    @admin.display(description=gettext_lazy("status"))
    def status(self, row: Any) -> str:
        is_held = row.held_until is not None and row.held_until > row.now
        shown = shown_condition(ReceiverCondition(row.state), is_held=is_held, carrier=Carrier.NONE)
        label = dict(type(row).ReceiverStatus.choices)[shown.condition.value]
        return format_html('<span class="mq-bad">{}</span>', label) if shown.is_problem else str(label)

    @admin.display(description=gettext_lazy("problem"))
    def words(self, row: Any) -> str:
        return columns.clip(row.problem)
