"""Actions: what an operator may do to chosen rows, and the page that asks before.

An action is offered above a list and as a button on the page of one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django.contrib import messages
from django.contrib.admin import helpers

from django_mq.acts import recorder
from django_mq.acts.extension import asks_reason
from django_mq.admin.forms import Confirmation, reason_field
from django_mq.admin.table import TableAdmin, alias
from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django import forms
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.template.response import TemplateResponse
    from django_stubs_ext import StrOrPromise

    from django_mq.acts.models import Act

#: Name of the field that a confirmed request carries.
CONFIRMED = "confirmed"


@dataclass(frozen=True, kw_only=True)
class Action:
    """An action. ``run`` takes a row and the answers and returns a sentence for the user. It may raise MQError."""

    name: str
    label: StrOrPromise
    #: The codename of the permission.
    permission: str
    run: Callable[..., Any]
    #: The form to fill in first; None for a harmless action.
    question: type[forms.Form] | None = None
    warning: StrOrPromise = ""
    #: Whether the button is red.
    harmful: bool = False
    #: Returns the command that does the same to a row, of the answers, of which some may be missing; or nothing.
    command: Callable[[Any, Mapping[str, Any]], str] | None = None
    #: Whether ``run`` takes the act as well, and adds to it the messages that it changes.
    counts: bool = False

    do_not_call_in_templates: ClassVar = True

    def __post_init__(self) -> None:
        # Django reads these of an entry of ``ModelAdmin.actions``.
        vars(self).update(__name__=self.name, short_description=self.label)

    def __call__(self, page: ActionAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return page.carry_out(self, request, queryset)


class GoneError(MQError):
    """The row does not exist any more."""


class Preview(NamedTuple):
    """The rows that an action concerns, as a table, and a sentence below it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: str = ""


class ActionAdmin(TableAdmin):
    """A page with actions. Each has a permission, and runs on one row after the other."""

    def may_do(self, request: HttpRequest, action: Action) -> bool:
        return self.may(request, action.permission)

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        # From Django 6.1 on.
        location = {} if action_location is None else {"action_location": action_location}
        found: dict[str, Any] = super().get_actions(request, **location)
        ours = [one for one in self.actions or () if isinstance(one, Action)]
        forbidden = {action.name for action in ours if not self.may_do(request, action)}
        return {name: entry for name, entry in found.items() if name not in forbidden}

    def carry_out(self, action: Action, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Run the action, or return the page that asks before."""
        chosen, answers = self.chosen(action, request, queryset), {}
        question = action.question or self.doubt(action, chosen)
        needs_reason = asks_reason(partial(self.count_up_to, action, chosen))
        if question is not None or needs_reason:
            confirmed = request.method == "POST" and CONFIRMED in request.POST
            form = (question or Confirmation)(request.POST if confirmed else None)
            if needs_reason:
                form.fields.setdefault("reason", reason_field())
            self.restrict(request, form)
            if not form.is_valid():
                return self._question(action, request, chosen, form)
            answers = form.cleaned_data
        return self.do(action, answers, request, chosen)

    def chosen(self, action: Action, request: HttpRequest, queryset: QuerySet[Any]) -> Any:  # noqa: ARG002 - for others
        return list(queryset)

    def doubt(self, action: Action, chosen: Any) -> type[forms.Form] | None:  # noqa: ARG002 - for others
        """Return the form to fill in first if these rows make a harmless action doubtful."""
        return None

    def count_up_to(self, action: Action, chosen: Any, limit: int) -> int:  # noqa: ARG002 - for others
        """Return how many messages the action changes, at least up to a number: many take a reason."""
        return 0

    def commands(self, action: Action, chosen: Any, answers: Mapping[str, Any]) -> list[str]:
        """Return the commands that do the same."""
        found = [action.command(row, answers) for row in chosen] if action.command else []
        return [command for command in found if command]

    def restrict(self, request: HttpRequest, form: forms.Form) -> None:
        """Disable fields that the user may not fill in."""

    def preview(self, action: Action, chosen: Any) -> Preview:
        raise NotImplementedError

    def do(
        self, action: Action, answers: Mapping[str, Any], request: HttpRequest, chosen: Any
    ) -> HttpResponse | None:
        """Run the action on each row, and tell the user. An error of one row does not stop the others."""
        for row in chosen:
            try:
                sentence = self.do_one(action, answers, request, row)
            except MQError as error:
                level = messages.WARNING if isinstance(error, GoneError) else messages.ERROR
                self.message_user(request, str(error), level)
            else:
                self.message_user(request, sentence, messages.SUCCESS)
        return None

    def do_one(self, action: Action, answers: Mapping[str, Any], request: HttpRequest, row: Any) -> str:
        """Run the action on a row, log it and return a sentence. Raises MQError."""
        values = {"about": row, "answers": answers, "reason": answers.get("reason")}
        values["command"] = "\n".join(self.commands(action, [row], answers))
        with recorder.recorded(self.new_act(request, action.name, **values), using=alias()) as act:
            act.sentence = self.run_on(action, answers, request, row, act)
        return act.sentence

    def run_on(self, action: Action, answers: Mapping[str, Any], request: HttpRequest, row: Any, act: Act) -> str:
        """Run the action on a row, write Django's log entry, and return a sentence. Raises MQError."""
        sentence: str = action.run(row, answers, act) if action.counts else action.run(row, answers)
        self.log_entry(request, row, sentence)
        return sentence

    def _question(self, action: Action, request: HttpRequest, chosen: Any, form: forms.Form) -> TemplateResponse:
        """Return the page that asks. Its form posts to the same URL."""
        return self.page(
            request,
            "confirmation",
            str(action.label),
            action=action,
            preview=self.preview(action, chosen),
            commands=self.commands(action, chosen, {}),
            form=form,
            # The breadcrumbs of the page of a row need these.
            original=str(action.label),
            has_view_permission=True,
            confirmed_name=CONFIRMED,
            action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
            selected=request.POST.getlist(helpers.ACTION_CHECKBOX_NAME),
            select_across=request.POST.get("select_across", "0"),
        )
