"""The page between choosing an act and doing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin import helpers
from django.template.response import TemplateResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django import forms
    from django.contrib.admin import ModelAdmin
    from django.http import HttpRequest

#: Name of the field that a confirmed request carries.
CONFIRMED = "confirmed"


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the request comes from this page."""
    return request.method == "POST" and CONFIRMED in request.POST


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the page says: the act, a table of what it concerns, and a form."""

    action: str
    title: str
    warning: str = ""
    harmful: bool = False
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    #: Said below the table: what it does not show.
    more: str = ""
    form: forms.Form

    def page(self, model_admin: ModelAdmin[Any], request: HttpRequest) -> TemplateResponse:
        """Return the page; the form posts back to the address it came from."""
        request.current_app = model_admin.admin_site.name
        context = {
            **model_admin.admin_site.each_context(request),
            "title": self.title,
            "question": self,
            "opts": model_admin.opts,
            # Where the way back of a row's page names the row.
            "original": self.title,
            "has_view_permission": True,
            "media": model_admin.media,
            "confirmed_name": CONFIRMED,
            "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
            "selected": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME),
            "select_across": request.POST.get("select_across", "0"),
        }
        return TemplateResponse(request, "admin/django_mq/confirmation.html", context)
