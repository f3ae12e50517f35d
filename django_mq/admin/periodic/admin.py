"""The list of periodic messages, and the page of one: its form, its next ticks and its last runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from django_mq.admin import columns
from django_mq.admin.actions import ActionAdmin, Preview
from django_mq.admin.addresses import message_address
from django_mq.admin.periodic.actions import ACTIONS, PAUSE, RESUME, RUN
from django_mq.admin.table import TableForm, alias
from django_mq.diagnosis.language import LOCAL, second_text
from django_mq.errors import ConfigurationError, TargetGone
from django_mq.models import History, Message
from django_mq.periodic import editor
from django_mq.periodic.models import PeriodicMessage, PeriodicRun, with_last_run
from django_mq.periodic.publisher import check_target
from django_mq.periodic.values import DECLARED
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django import forms
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.admin.actions import Action

#: How many of the last runs the page of a row has.
RUNS_SHOWN = 20
LINE = mark_safe("<br>")
#: Outcomes to look at.
WRONG = {PeriodicRun.TickOutcome.DEAD, PeriodicRun.TickOutcome.EXPIRED, PeriodicRun.TickOutcome.MISSED}

JSON_FIELDS = ("body", "args", "kwargs", "options")


class PeriodicForm(TableForm):
    def clean(self) -> dict[str, Any] | None:
        """Refuse what can never be published."""
        cleaned = super().clean()
        if not self.errors:
            row = PeriodicMessage(**{name: value for name, value in (cleaned or {}).items() if name in DECLARED})
            try:
                check_target(row, using=alias())
            except TargetGone as error:
                raise ValidationError(str(error)) from error
        return cleaned

    class Meta:
        widgets: ClassVar = {name: AdminTextareaWidget(attrs={"rows": 3}) for name in JSON_FIELDS}
        model = PeriodicMessage
        fields: ClassVar = [
            *(
                "name",
                "cron",
                "every_seconds",
                "tz",
                "kind",
                "queue",
                "target",
                "body",
                "args",
                "kwargs",
                "options",
            ),
            *("missed", "most_missed", "overlap", "jitter_seconds", "start_at", "end_at", "alert_seconds"),
        ]


class PeriodicMessageAdmin(ActionAdmin):
    form = PeriodicForm
    actions = ACTIONS
    change_form_template = "admin/django_mq/periodicmessage/change_form.html"
    list_display = ["name", "situation", "last", "next_tick", "when", "published"]
    list_filter = ["is_paused", "kind"]
    search_fields = ["name", "target", "queue"]
    readonly_fields = ["when", "ticks", "last", "situation", "differing"]
    fieldsets = [
        (None, {"fields": ["name", "situation", "last", "differing"]}),
        (
            gettext_lazy("When"),
            {"fields": ["when", "ticks", "cron", "every_seconds", "tz", "start_at", "end_at", "jitter_seconds"]},
        ),
        (gettext_lazy("What"), {"fields": ["kind", "queue", "target", "body", "args", "kwargs", "options"]}),
        (gettext_lazy("Rules"), {"fields": ["missed", "most_missed", "overlap", "alert_seconds"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_last_run(super().get_queryset(request))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        live = set(self.readonly_fields) if obj is None else set() if obj.changes else {"differing"}
        return [
            (heading, {"fields": [name for name in part["fields"] if name not in live]}) for heading, part in found
        ]

    @admin.display(description=gettext_lazy("when"))
    def when(self, row: PeriodicMessage) -> str:
        return _when(row)

    @admin.display(description=gettext_lazy("publishes"))
    def published(self, row: PeriodicMessage) -> str:
        return columns.breakable(row.target or row.queue)

    @admin.display(description=gettext_lazy("next tick"))
    def next_tick(self, row: PeriodicMessage) -> str:
        ticks = _ticks(row, 1)
        return columns.ago(ticks[0]) if ticks else "-"

    @admin.display(description=gettext_lazy("next ticks"))
    def ticks(self, row: PeriodicMessage) -> str:
        found = [(second_text(tick, row.schedule.zone), row.tz) for tick in _ticks(row, 5)]
        return format_html_join(LINE, "{}, {}", found) or "-"

    @admin.display(description=gettext_lazy("last run"))
    def last(self, row: Any) -> str:
        if row.last_due_at is None:
            return "-"
        return format_html("{}, {}", _outcome(row.last_outcome), columns.ago(row.last_due_at))

    @admin.display(description=gettext_lazy("status"))
    def situation(self, row: PeriodicMessage) -> str:
        words = [_("paused: %(reason)s") % {"reason": row.paused_reason}] if row.is_paused else []
        words += [_("changed by an operator")] if row.changes else []
        if words:
            return format_html('<span class="mq-warn">{}</span>', "; ".join(words))
        return _("is published") if _ticks(row, 1) else _("no tick will come")

    @admin.display(description=gettext_lazy("changed by an operator"))
    def differing(self, row: PeriodicMessage) -> str:
        """Return which values are not those that the code declares."""
        declared = row.declared or {}
        fields = {field.name: field.verbose_name for field in PeriodicMessage._meta.get_fields() if field.concrete}
        words = _("%(field)s: the code declares %(value)s")
        found = [(words % {"field": fields[name], "value": declared[name]},) for name in row.changes]
        return format_html_join(LINE, "{}", found) or "-"

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm[Any], change: bool) -> None:  # noqa: ARG002 - Django's
        editor.save(obj, using=alias())

    def delete_model(self, request: HttpRequest, obj: Any) -> None:  # noqa: ARG002 - as above
        editor.delete(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:  # noqa: ARG002 - as above
        for row in queryset:
            editor.delete(row)

    def preview(self, action: Action, chosen: Sequence[PeriodicMessage]) -> Preview:  # noqa: ARG002 - of other actions
        return Preview([_("Name"), _("When")], [[row.name, _when(row)] for row in chosen])

    def details(self, request: HttpRequest, row: PeriodicMessage) -> dict[str, Any]:
        fit = [RESUME if row.is_paused else PAUSE, RUN]
        buttons = [(action.name, str(action.label)) for action in fit if self.may_do(request, action)]
        came = row.runs.filter(due_at__lte=clock.now())  # others are published ahead
        may_look = any(self.may(request, f"view_{model._meta.model_name}") for model in (Message, History))
        runs = [
            {
                "tick": second_text(run.due_at),
                "by_hand": run.by_hand,
                "outcome": _outcome(run.outcome),
                "ended": second_text(run.ended_at) if run.ended_at else "-",
                "message": columns.short_id(run.message_id) if run.message_id else "-",
                "address": message_address(self, run.message_id) if may_look else "",
            }
            for run in came.order_by("-due_at")[:RUNS_SHOWN]
        ]
        return self.buttons(buttons) | {"runs": runs}


def _outcome(outcome: str) -> str:
    """Return an outcome in words, marked if something went wrong."""
    label = str(PeriodicRun.TickOutcome(outcome).label)
    return format_html('<span class="mq-warn">{}</span>', label) if outcome in WRONG else label


def _ticks(row: PeriodicMessage, number: int) -> list[Any]:
    try:
        return editor.next_ticks(row, number)
    except ConfigurationError:
        return []  # the sentence says what is wrong


def _when(row: PeriodicMessage) -> str:
    """Return when it is due. A cron line is said in English words only; other languages show the line."""
    if (get_language() or "en").startswith("en"):
        return row.sentence
    if row.every_seconds is not None:
        return _("every %(time)s") % {"time": LOCAL.precise(row.every_seconds)}
    return f"{row.cron}, {row.tz}"
