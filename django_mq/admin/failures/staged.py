"""The list of redrives in stages, and the page of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models import BooleanField, Value
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin
from django_mq.admin.addresses import message_address
from django_mq.admin.failures.actions import GO_ON, STEERING, STOP, plan_of
from django_mq.admin.table import ReadOnly
from django_mq.diagnosis.language import exact
from django_mq.failures.staged import StopReason
from django_mq.models import FailureGroup, StagedRedrive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.acts.models import Act


class StagedRedriveAdmin(ReadOnly, ActionAdmin):
    """To stop or continue a redrive, a user needs the permission to redrive."""

    actions = STEERING
    list_display = ["number", "group_shown", "plan", "situation", "progress", "user", "started"]
    list_filter = ["status"]
    list_select_related = ["group"]
    sortable_by = ()
    fieldsets = [
        (None, {"fields": ["group_shown", "plan", "situation", "progress"]}),
        (gettext_lazy("User and times"), {"fields": ["user", "created_at", "beat_at"]}),
    ]
    change_form_template = "admin/django_mq/operation/change_form.html"

    started = columns.ago_column("created_at", gettext_lazy("started"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[StagedRedrive]:
        may_view_group = Value(self.may(request, "view_failuregroup"), BooleanField())
        rows: QuerySet[StagedRedrive] = super().get_queryset(request).annotate(may_view_group=may_view_group)
        return rows

    @admin.display(description=gettext_lazy("redrive"))
    def number(self, redrive: StagedRedrive) -> str:
        return str(redrive)

    @admin.display(description=gettext_lazy("failure group"), empty_value="-")
    def group_shown(self, redrive: Any) -> str | None:
        if redrive.group is None:
            return None
        if not redrive.may_view_group:
            return f"#{redrive.group.pk}"
        address = self.page_address(FailureGroup, redrive.group.pk)
        return format_html('<a href="{}">{}</a>', address, columns.clip(str(redrive.group)))

    @admin.display(description=gettext_lazy("stages"))
    def plan(self, redrive: StagedRedrive) -> str:
        return plan_of(redrive)

    @admin.display(description=gettext_lazy("started by"))
    def user(self, redrive: StagedRedrive) -> str:
        return redrive.user_name or _("a command")

    @admin.display(description=gettext_lazy("status"))
    def situation(self, redrive: StagedRedrive) -> str:
        label = redrive.get_status_display()
        if redrive.status != StagedRedrive.Status.STOPPED:
            return str(label)
        shown = format_html('<span class="mq-warn">{}</span>', label)
        if redrive.reason == StopReason.FAILED and redrive.about:
            address = message_address(self, UUID(redrive.about))
            return format_html(_('{}: <a href="{}">a message</a> has failed.'), shown, address)
        return format_html("{}: {}", shown, _reason(redrive))

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, redrive: StagedRedrive) -> str:
        waiting = redrive.sent - redrive.known
        words = _("%(sent)s sent: %(succeeded)s succeeded, %(failed)s failed, %(waiting)s not finished") % {
            "sent": exact(redrive.sent),
            "succeeded": exact(redrive.succeeded),
            "failed": exact(redrive.failed),
            "waiting": exact(waiting),
        }
        if redrive.removed:
            words += _(", %(removed)s removed") % {"removed": exact(redrive.removed)}
        if redrive.stayed:
            words += _("; %(stayed)s could not be sent") % {"stayed": exact(redrive.stayed)}
        return words

    def run_on(self, action: Action, answers: Mapping[str, Any], request: HttpRequest, row: Any, act: Act) -> str:
        sentence: str = action.run(self, request, row, answers, act)
        self.log_entry(request, row, sentence)
        return sentence

    def details(self, request: HttpRequest, row: StagedRedrive) -> dict[str, Any]:
        is_running = row.status == StagedRedrive.Status.RUNNING
        fit = {StagedRedrive.Status.RUNNING: STOP, StagedRedrive.Status.STOPPED: GO_ON}.get(row.status)  # type: ignore[call-overload] # a text
        may = fit is not None and self.may_do(request, fit)
        return self.buttons([(fit.name, str(fit.label))] if fit and may else []) | {"is_running": is_running}


def _reason(redrive: StagedRedrive) -> str:
    words = {
        StopReason.OPERATOR: _("an operator has stopped it."),
        StopReason.FAILED: _("a message has failed."),
    }
    return words.get(redrive.reason, redrive.about)
