"""The page of bridges and the list of their connections; the list of receivers; and the page of one of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.bridges import bridges
from django_mq.admin.table import ReadOnly, TableAdmin
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.reports import GONE
from django_mq.diagnosis.language import LOCAL, exact
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


class BridgeLinkAdmin(ReadOnly, TableAdmin):
    pages = {"bridges/": bridges.page}
    list_display = ["name", "worker_shown", "status", "since_shown", "sent", "dead", "per_minute", "words"]
    search_fields = ["bridge", "worker"]
    sortable_by = ()
    ordering = ["bridge", "id"]
    change_form_template = "admin/django_mq/row.html"
    fieldsets = [
        (None, {"fields": ["bridge", "worker", "status", "since", "seen_at", "confirms"]}),
        (None, {"fields": ["forwarded", "dead", "per_minute", "error", "error_at"]}),
    ]
    name = columns.name_column("bridge", gettext_lazy("bridge"))
    worker_shown = columns.name_column("worker", gettext_lazy("worker"))
    since_shown = columns.ago_column("since", gettext_lazy("since"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        found: QuerySet[Any] = rows.annotate(now=UTCNow())
        return found

    @admin.display(description=gettext_lazy("status"))
    def status(self, row: Any) -> str:
        if row.seen_at < row.now - GONE:
            return format_html('<span class="mq-bad">{}</span>', _("gone"))
        shown = row.get_state_display()
        is_well = row.state == BridgeLink.LinkState.CONNECTED
        return str(shown) if is_well else format_html('<span class="mq-bad">{}</span>', shown)

    @admin.display(description=gettext_lazy("forwarded"))
    def sent(self, row: Any) -> str:
        return exact(row.forwarded)

    @admin.display(description=gettext_lazy("forwarded per minute"))
    def per_minute(self, row: Any) -> str:
        return LOCAL.rate(60 * row.per_second)

    @admin.display(description=gettext_lazy("last error"))
    def words(self, row: Any) -> str:
        return columns.clip(row.error)
