"""The actions of the message pages, each behind its own permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _

from django_mq.admin import background, depth, report, selection
from django_mq.admin import message_acts as acts
from django_mq.admin.confirmation import Question, is_confirmed
from django_mq.admin.selection import Selection
from django_mq.admin.table import TableAdmin, alias
from django_mq.diagnosis import narrowing
from django_mq.errors import MQError
from django_mq.models import Message, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django import forms
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.message_acts import Act


class MessageActions(TableAdmin):
    """Release, move, cancel, deliver now, reschedule, change priority, retry."""

    actions = [act.name for act in acts.ACTS]

    def has_release_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.RELEASE.permission)

    def has_move_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.MOVE.permission)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.CANCEL.permission)

    def has_deliver_now_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.DELIVER_NOW.permission)

    def has_reschedule_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.RESCHEDULE.permission)

    def has_prioritise_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.PRIORITISE.permission)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.RETRY.permission)

    @admin.action(description=acts.RELEASE.label, permissions=["release"])
    def release(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.RELEASE, request, queryset)

    @admin.action(description=acts.MOVE.label, permissions=["move"])
    def move(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.MOVE, request, queryset)

    @admin.action(description=acts.CANCEL.label, permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.CANCEL, request, queryset)

    @admin.action(description=acts.DELIVER_NOW.label, permissions=["deliver_now"])
    def deliver_now(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.DELIVER_NOW, request, queryset)

    @admin.action(description=acts.RESCHEDULE.label, permissions=["reschedule"])
    def reschedule(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.RESCHEDULE, request, queryset)

    @admin.action(description=acts.PRIORITISE.label, permissions=["prioritise"])
    def prioritise(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.PRIORITISE, request, queryset)

    @admin.action(description=acts.RETRY.label, permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return self._carry_out(acts.RETRY, request, queryset)

    def _carry_out(self, act: Act, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        chosen = Selection(request, queryset, self.look, act.among)
        if act.question is None:
            return self._do(act, {}, request, chosen)
        form = act.question(request.POST if is_confirmed(request) else None)
        if not form.is_valid():
            return self._question(act, chosen, form).page(self, request)
        return self._do(act, form.cleaned_data, request, chosen)

    def _question(self, act: Act, chosen: Selection, form: forms.Form) -> Question:
        return Question(
            action=act.name,
            title=str(act.label),
            warning=str(act.warning),
            harmful=act.harmful,
            columns=[_("State"), _("Messages"), _("Remark")],
            rows=[self._row(act, state, count) for state, count in sorted(chosen.states.items())],
            more=self._more(chosen) if chosen.cut else "",
            form=form,
        )

    @staticmethod
    def _more(chosen: Selection) -> str:
        sentence = _("And more: all that match the filters, %(count)s messages, in the background.")
        count, whole = chosen.count(depth.LIMIT)
        return sentence % {"count": depth.shown(count, more=not whole)}

    @staticmethod
    def _row(act: Act, state: int, count: int) -> list[str]:
        note = "" if state in act.states else _("will be left alone")
        return [str(Message.Status(state).label), depth.exact(count), note]

    def _do(
        self, act: Act, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection
    ) -> HttpResponse | None:
        if chosen.cut:
            return self._do_in_background(act, answers, request, chosen)
        self._do_now(act, answers, request, chosen)
        return None

    def _do_in_background(
        self, act: Act, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection
    ) -> HttpResponse:
        """Begin an operation on all that match the list's filters, and show how it gets on."""
        if not self.is_as_its_address_says(request):
            words = _(
                "Nothing was done: this list is narrowed by what operations in the background do not know. "
                "Filter it to %(limit)s messages or fewer, or select some."
            )
            self.message_user(request, words % {"limit": selection.LIMIT}, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        filters = narrowing.known(request.GET.dict())
        expected, whole = chosen.count(depth.LIMIT)
        user_name = request.user.get_username()
        operation = background.begin(act, filters, answers, user_name=user_name, expected=expected)
        sentence = _("%(act)s: begun for all that match, some %(count)s messages.") % {
            "act": act.label,
            "count": depth.shown(operation.expected, more=not whole),
        }
        report.log_operation(request, operation, sentence)
        self.message_user(request, sentence, messages.SUCCESS)
        if not self.may(request, "view_operation"):
            return HttpResponseRedirect(request.get_full_path())
        return HttpResponseRedirect(f"{self.list_address(Operation)}{operation.pk}/change/")

    def _do_now(self, act: Act, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection) -> None:
        try:
            changed = act.run(chosen.messages, answers, alias())
        except MQError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        sentence = report.told(act, answers, chosen, changed)
        if changed:
            report.log(request, chosen, sentence)
        whole = changed == chosen.asked
        self.message_user(request, sentence, messages.SUCCESS if whole else messages.WARNING)
