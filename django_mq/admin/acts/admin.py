"""The list of acts, the page of one, and the button that puts messages back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Count
from django.utils.html import format_html, format_html_join
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.acts.command_lines import line, option
from django_mq.acts.models import Act, ActedMessage
from django_mq.acts.undo import left_of, remembered, undo
from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin, Preview
from django_mq.admin.acts import words
from django_mq.admin.addresses import message_address
from django_mq.admin.filters import SAMPLE, Filter, SpanFilter
from django_mq.admin.forms import Confirmation
from django_mq.admin.table import ReadOnly, alias
from django_mq.diagnosis.language import exact, time_text
from django_mq.diagnosis.messages.life import id_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

#: The most messages that the page of an act names.
SHOWN = 50
#: The permissions with which a user may view a table.
SEE = ("view", "change")


def _undo(act: Act, _answers: Mapping[str, Any], record: Act) -> str:
    return words.undone(undo(act, record, using=alias()))


UNDO = Action(
    name="undo",
    permission="undo_act",
    label=gettext_lazy("Put back"),
    run=_undo,
    question=Confirmation,
    warning=gettext_lazy(
        "What was moved goes to the end of the queue that it came from, and its attempts start again. What was a "
        "dead letter is one again. What a worker has begun, and what has left meanwhile, stays as it is."
    ),
    counts=True,
    command=lambda act, _answers: line("mq_acts", option("undo", act.pk)),
)


class UserFilter(Filter):
    title, parameter_name = gettext_lazy("user"), "user_name"

    def found(self, model: type[Any]) -> Iterable[str]:
        newest: QuerySet[Any] = model.objects.using(alias()).order_by("-id")
        return newest.values_list("user_name", flat=True)[:SAMPLE]


class NameFilter(Filter):
    title, parameter_name = gettext_lazy("action"), "name"

    def found(self, model: type[Any]) -> Iterable[str]:
        newest: QuerySet[Any] = model.objects.using(alias()).order_by("-id")
        return newest.values_list("name", flat=True)[:SAMPLE]


class TimeFilter(SpanFilter):
    title, field = gettext_lazy("time"), "began_at"


class ActAdmin(ReadOnly, ActionAdmin):
    """What operators did to the tables that the user may view, the latest first."""

    actions = [UNDO]
    list_display = ["when", "user_name", "what", "about_shown", "done", "reason_shown"]
    list_filter = [UserFilter, "interface", NameFilter, TimeFilter]
    search_fields = ["user_name", "about", "sentence", "reason"]
    search_help_text = gettext_lazy("Search for words, names, users and reasons, or for the id of a message.")
    sortable_by = ()
    change_form_template = "admin/django_mq/row.html"
    fieldsets = [
        (None, {"fields": ["what", "about", "sentence", "count", "reason", "undoes"]}),
        (gettext_lazy("Request"), {"fields": ["criterion_shown", "answers_shown", "command_shown"]}),
        (gettext_lazy("User and times"), {"fields": ["user_name", "interface", "time"]}),
        (gettext_lazy("Messages"), {"fields": ["some"]}),
    ]

    when = columns.ago_column("began_at", gettext_lazy("time"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Act]:
        models = apps.get_app_config(self.opts.app_label).get_models()
        names = [str(model._meta.model_name) for model in models]
        seen = [name for name in names if any(self.may(request, f"{may}_{name}") for may in SEE)]
        rows: QuerySet[Act] = super().get_queryset(request).filter(model__in=seen)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        message_id = id_in(search_term.strip())
        if message_id is None:
            return super().get_search_results(request, queryset, search_term)
        found = ActedMessage.objects.using(alias()).filter(message_id=message_id)
        return queryset.filter(pk__in=found.values("act")), False

    @admin.display(description=gettext_lazy("action"))
    def what(self, act: Act) -> str:
        model = words.model_of(act)
        table = capfirst(str(model._meta.verbose_name)) if model else act.model
        return f"{table}: {words.label(self.admin_site, act)}"

    @admin.display(description=gettext_lazy("about"), empty_value="-")
    def about_shown(self, act: Act) -> str | None:
        if act.about and words.about_messages(act):
            address = message_address(self, id_in(act.about))
            return format_html('<a href="{}">{}</a>', address, act.about) if address else columns.clip(act.about)
        return columns.clip(act.about or words.criterion(act)) or None

    @admin.display(description=gettext_lazy("what was done"), empty_value="-")
    def done(self, act: Act) -> str | None:
        return columns.clip(act.sentence) or None

    @admin.display(description=gettext_lazy("reason"), empty_value="-")
    def reason_shown(self, act: Act) -> str | None:
        return columns.clip(act.reason) or None

    @admin.display(description=gettext_lazy("criterion"))
    def criterion_shown(self, act: Act) -> str:
        return words.criterion(act) or "-"

    @admin.display(description=gettext_lazy("answers"))
    def answers_shown(self, act: Act) -> str:
        return words.answers(self.admin_site, act) or "-"

    @admin.display(description=gettext_lazy("command"))
    def command_shown(self, act: Act) -> str:
        return format_html('<code class="mq-command">{}</code>', act.command) if act.command else "-"

    @admin.display(description=gettext_lazy("time"))
    def time(self, act: Act) -> str:
        return time_text(act.began_at)

    @admin.display(description=gettext_lazy("messages"))
    def some(self, act: Act) -> str:
        rows = ActedMessage.objects.using(alias()).filter(act=act.pk).order_by("pk")[:SHOWN]
        lines = [(message_address(self, row.message_id), row.message_id, _way(row)) for row in rows]
        return format_html_join("", '<div><a href="{}">{}</a> {}</div>', lines) or "-"

    def count_up_to(self, action: Action, chosen: Sequence[Act], limit: int) -> int:  # noqa: ARG002 - there is one
        return sum(remembered(act, using=alias()) for act in chosen)

    def preview(self, action: Action, chosen: Sequence[Act]) -> Preview:  # noqa: ARG002 - there is one
        rows = []
        for act in chosen:
            ways = left_of(act, alias()).order_by("came_from").values_list("went_to", "came_from")
            counted = ways.annotate(number=Count("pk"))
            rows += [[f"#{act.pk}", went_to, came_from, exact(number)] for went_to, came_from, number in counted]
        return Preview([_("Action"), _("Sent to"), _("Back to"), _("Messages")], rows)

    def details(self, request: HttpRequest, row: Act) -> dict[str, Any]:
        count = remembered(row, using=alias()) if self.may_do(request, UNDO) else 0
        label = ngettext("Put %(count)s message back", "Put these %(count)s messages back", count)
        return self.buttons([(UNDO.name, label % {"count": exact(count)})] if count else [])


def _way(row: ActedMessage) -> str:
    way = row.came_from if row.came_from == row.went_to else f"{row.came_from} → {row.went_to}"
    return f"{way} ({_('put back')})" if row.undone else way
