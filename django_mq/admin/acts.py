"""Acts: what an operator may do to chosen rows, and the page between choosing an act and doing it.

An act is an action of a list, and a button on the page of one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin import helpers

from django_mq.admin.table import TableAdmin
from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django import forms
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.template.response import TemplateResponse
    from django_stubs_ext import StrOrPromise

#: Name of the field that a confirmed request carries.
CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing to do. ``run`` takes a row and the answers, and returns what was done; it may raise MQError."""

    name: str
    label: StrOrPromise
    #: What the user needs, of our permissions.
    permission: str
    run: Callable[..., Any]
    #: The form to answer first; None for an act that harms nobody.
    question: type[forms.Form] | None = None
    warning: StrOrPromise = ""
    #: Shown with a red button.
    harmful: bool = False


class GoneError(MQError):
    """The row has gone."""


class Preview(NamedTuple):
    """What an act concerns, as a table, and what is said below: what the table does not show."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: str = ""


def as_action(act: Act) -> Callable[..., HttpResponse | None]:
    """Return the action of a list that carries the act out."""

    @admin.action(description=act.label)
    def action(page: ActingAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return page.carry_out(act, request, queryset)

    action.__name__ = act.name
    action.act = act  # type: ignore[attr-defined] # for get_actions
    return action


class ActingAdmin(TableAdmin):
    """A page with acts, each behind a permission of its own, done to one row after the other."""

    def may_do(self, request: HttpRequest, act: Act) -> bool:
        """Return whether the user may do this to any row."""
        return self.may(request, act.permission)

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        # Django passes the location, and asks for a parameter of this name, from 6.1.
        location = {} if action_location is None else {"action_location": action_location}
        found: dict[str, Any] = super().get_actions(request, **location)
        acts: list[Act] = [action.act for action in self.actions or () if hasattr(action, "act")]
        forbidden = {act.name for act in acts if not self.may_do(request, act)}
        return {name: entry for name, entry in found.items() if name not in forbidden}

    def carry_out(self, act: Act, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Do it, or return the page that asks before."""
        chosen, answers = self.chosen(act, request, queryset), {}
        if act.question is not None:
            confirmed = request.method == "POST" and CONFIRMED in request.POST
            form = act.question(request.POST if confirmed else None)
            self.restrict(request, form)
            if not form.is_valid():
                return self._question(act, request, self.preview(act, chosen), form)
            answers = form.cleaned_data
        return self.do(act, answers, request, chosen)

    def chosen(self, act: Act, request: HttpRequest, queryset: QuerySet[Any]) -> Any:  # noqa: ARG002 - for others
        """Return the rows that the request names."""
        return list(queryset)

    def restrict(self, request: HttpRequest, form: forms.Form) -> None:
        """Disable what the user may not answer."""

    def preview(self, act: Act, chosen: Any) -> Preview:
        """Return what the act concerns."""
        raise NotImplementedError

    def do(self, act: Act, answers: Mapping[str, Any], request: HttpRequest, chosen: Any) -> HttpResponse | None:
        """Do it to each row, tell the user, and leave log entries. A row that refuses does not stop the others."""
        for row in chosen:
            try:
                sentence = self.do_one(act, answers, request, row)
            except MQError as error:
                level = messages.WARNING if isinstance(error, GoneError) else messages.ERROR
                self.message_user(request, str(error), level)
            else:
                self.message_user(request, sentence, messages.SUCCESS)
        return None

    def do_one(self, act: Act, answers: Mapping[str, Any], request: HttpRequest, row: Any) -> str:
        """Return what was done to the row, and log it. Raises MQError."""
        sentence: str = act.run(row, answers)
        self.log_change(request, row, sentence)
        return sentence

    def _question(self, act: Act, request: HttpRequest, preview: Preview, form: forms.Form) -> TemplateResponse:
        """Return the page that asks; its form posts back to the address it came from."""
        return self.page(
            request,
            "confirmation",
            str(act.label),
            act=act,
            preview=preview,
            form=form,
            # Where the way back of a row's page names the row.
            original=str(act.label),
            has_view_permission=True,
            confirmed_name=CONFIRMED,
            action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
            selected=request.POST.getlist(helpers.ACTION_CHECKBOX_NAME),
            select_across=request.POST.get("select_across", "0"),
        )
