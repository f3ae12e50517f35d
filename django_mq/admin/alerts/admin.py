"""The list of alerts, and the page of one with what its targets were told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.filters import Filter
from django_mq.admin.table import ReadOnly, TableAdmin
from django_mq.alerts.models import RecordedAlert
from django_mq.diagnosis.language import LOCAL, time_text

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.alerts.models import AlertNotice

LINE = mark_safe("<br>")


class IsOver(Filter):
    title = gettext_lazy("status")
    parameter_name = "status"
    offered = [("standing", gettext_lazy("standing")), ("over", gettext_lazy("over"))]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(ended_at__isnull=value == "standing")


class RecordedAlertAdmin(ReadOnly, TableAdmin):
    list_display = ["what", "level_shown", "since", "status", "words", "told"]
    list_filter = [IsOver, "level"]
    search_fields = ["about", "cause"]
    sortable_by = ()
    change_form_template = "admin/django_mq/row.html"
    fieldsets = [(None, {"fields": ["what", "level_shown", "sentence", "began_at", "status", "told"]})]

    since = columns.ago_column("began_at", gettext_lazy("since"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.prefetch_related("notices")

    @admin.display(description=gettext_lazy("alert"))
    def what(self, alert: RecordedAlert) -> str:
        return columns.clip(str(alert))

    @admin.display(description=gettext_lazy("level"))
    def level_shown(self, alert: RecordedAlert) -> str:
        is_bad = alert.level == RecordedAlert.LevelName.PROBLEM and alert.ended_at is None
        label = alert.get_level_display()
        return format_html('<span class="mq-bad">{}</span>', label) if is_bad else str(label)

    @admin.display(description=gettext_lazy("status"))
    def status(self, alert: RecordedAlert) -> str:
        lasted = LOCAL.duration(alert.lasted.total_seconds())
        if alert.ended_at is None:
            return _("standing for %(lasted)s") % {"lasted": lasted}
        words = _("over after %(lasted)s") % {"lasted": lasted}
        return format_html('<span title="{}">{}</span>', time_text(alert.ended_at), words)

    @admin.display(description=gettext_lazy("sentence"))
    def words(self, alert: RecordedAlert) -> str:
        return columns.clip(alert.sentence)

    @admin.display(description=gettext_lazy("sent to"), empty_value="-")
    def told(self, alert: RecordedAlert) -> str | None:
        return format_html_join(LINE, "{}", ((_told(notice),) for notice in alert.notices.all())) or None


def _told(notice: AlertNotice) -> str:
    """Return what a target was told, and when; or why not."""
    words = {"target": notice.target, "news": notice.get_news_display(), "error": notice.error}
    if notice.sent_at is not None:
        return _("%(target)s: %(news)s, %(time)s") % (words | {"time": time_text(notice.sent_at)})
    if notice.next_at is None:
        return _("%(target)s: %(news)s, not sent. %(error)s") % words
    if notice.error:
        words["time"] = time_text(notice.next_at)
        return _("%(target)s: %(news)s, tried again %(time)s. %(error)s") % words
    return _("%(target)s: %(news)s, about to be sent") % words
