"""Snoozed alerts: the overview does not show them until a time. To delete one ends it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.table import TableAdmin, TableForm, alias
from django_mq.models import SnoozedAlert

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.http import HttpRequest

#: The most hours of a snooze: a month.
MOST_HOURS = 24 * 31


class SnoozeForm(TableForm):
    """What to snooze, for how long, and why. The overview fills in what."""

    hours = forms.FloatField(label=gettext_lazy("Hours"), min_value=0.1, max_value=MOST_HOURS, initial=24)

    class Meta:
        model = SnoozedAlert
        fields = ("kind", "about", "reason")


class SnoozedAlertAdmin(TableAdmin):
    form = SnoozeForm
    fields = ("kind", "about", "hours", "reason")
    list_display = ["kind", "about_shown", "reason", "until", "status", "user_name"]
    sortable_by = ()

    about_shown = columns.name_column("about", gettext_lazy("about"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    @admin.display(description=gettext_lazy("status"))
    def status(self, snoozed: SnoozedAlert) -> str:
        return _("snoozed") if snoozed.until > datetime.now(UTC) else _("over")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        return self.fields if obj is None else ("kind", "about", "reason", "until", "user_name", "created_at")

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm[Any], change: bool) -> None:  # noqa: ARG002
        obj.created_at = datetime.now(UTC)
        obj.until = obj.created_at + timedelta(hours=form.cleaned_data["hours"])
        obj.user_name = request.user.get_username()
        obj.save(using=alias())


def identity(alert: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of an alert, and what it is about, as a snooze has them."""
    about = alert["queue"] or (alert["label"] if alert["kind"] == "extension" else "")
    return alert["kind"], str(about)[:255]


def hidden(
    alerts: Iterable[dict[str, Any]], snoozed: Mapping[tuple[str, str], SnoozedAlert]
) -> list[dict[str, Any]]:
    """Return the alerts that are snoozed, each with the reason and the end."""
    pairs = [(alert, snoozed.get(identity(alert))) for alert in alerts]
    return [
        alert | {"about": one.about, "reason": one.reason, "until": one.until}
        for alert, one in pairs
        if one is not None
    ]


def with_link(admin_page: TableAdmin, request: HttpRequest, alert: dict[str, Any]) -> dict[str, Any]:
    """Return an alert with the address of the form that snoozes it, if the user may do so."""
    if not admin_page.may(request, "add_snoozedalert"):
        return alert
    kind, about = identity(alert)
    address = f"{admin_page.list_address(SnoozedAlert)}add/?{urlencode({'kind': kind, 'about': about})}"
    return alert | {"snooze": address}
