"""How the pages say what an operator chose, and what was done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.acts.models import Act
from django_mq.admin import filters
from django_mq.admin.actions import Action
from django_mq.diagnosis.language import exact
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.contrib.admin import AdminSite
    from django.db.models import Model
    from django_stubs_ext import StrOrPromise

    from django_mq.acts.undo import Undone

#: The filters of the list of messages.
LISTED: tuple[type[filters.Filter], ...] = (
    filters.QueueFilter,
    filters.StateFilter,
    filters.TypeFilter,
    filters.PriorityFilter,
    filters.AttemptsFilter,
    filters.WorkerFilter,
    filters.ErrorFilter,
    filters.ExceptionFilter,
    filters.FailureGroupFilter,
    filters.PublishedFilter,
    filters.BeforeFilter,
)
TITLES: Mapping[str, StrOrPromise] = {
    **{str(each.parameter_name): each.title or "" for each in LISTED},
    "since": gettext_lazy("published from"),
    "until": gettext_lazy("published before"),
    "due_since": gettext_lazy("due from"),
    "due_until": gettext_lazy("due before"),
    "q": gettext_lazy("search"),
}
VALUES = {str(each.parameter_name): {str(value): label for value, label in each.offered} for each in LISTED}
#: What is done without an action of a page.
DONE: Mapping[str, StrOrPromise] = {
    "add": gettext_lazy("Add"),
    "change": gettext_lazy("Change"),
    "delete": gettext_lazy("Delete"),
    "publish": gettext_lazy("Publish"),
    "download": gettext_lazy("Download"),
    "go_on": gettext_lazy("Continue"),
    "stop": gettext_lazy("Stop"),
}


def criterion(act: Act) -> str:
    """Return how the messages of an act were chosen."""
    given = act.criterion if isinstance(act.criterion, dict) else {}
    if "chosen" in given:
        number = given["chosen"]
        return ngettext("%(count)s chosen by hand", "%(count)s chosen by hand", number) % {"count": exact(number)}
    found = given.get("filters")
    if found == {}:
        return _("all messages")
    return "; ".join(f"{TITLES.get(name, name)}: {_value(name, value)}" for name, value in (found or {}).items())


def _value(name: str, value: Any) -> str:
    return str(VALUES.get(name, {}).get(str(value), value))


def answers(site: AdminSite, act: Act) -> str:
    """Return what the operator has answered or given besides, as the form calls it."""
    given = act.answers if isinstance(act.answers, dict) else {}
    action = _action(site, act)
    fields = action.question.base_fields if action and action.question else {}
    names = {name: (fields[name].label if name in fields else "") or name for name in given}
    return "; ".join(f"{names[name]}: {value}" for name, value in given.items() if value not in ("", None))


def label(site: AdminSite, act: Act) -> str:
    """Return the name of what was done, as the page of the table shows it."""
    action = _action(site, act)
    return str(action.label if action else DONE.get(act.name, act.name))


def model_of(act: Act) -> type[Model] | None:
    """Return the model of the rows that an act is about."""
    return apps.get_app_config(Act._meta.app_label).models.get(act.model)


def _action(site: AdminSite, act: Act) -> Action | None:
    """Return the action that an act was, if the site has it."""
    model = model_of(act)
    page: Any = site.get_model_admin(model) if model and site.is_registered(model) else None
    found = getattr(page, "actions", None) or ()
    return next((each for each in found if isinstance(each, Action) and each.name == act.name), None)


def undone(done: Undone) -> str:
    """Return what an undo has put back, and what it has left, and why."""
    head = ngettext(
        "Put back: %(back)s of %(asked)s message.", "Put back: %(back)s of %(asked)s messages.", done.asked
    )
    sentence = head % {"back": exact(done.back), "asked": exact(done.asked)}
    left = ", ".join(_left(done))
    return f"{sentence} {_('Left alone: %s.') % left}" if left else sentence


def _left(done: Undone) -> Iterator[str]:
    words = {
        "held": _("%(count)s held by a worker"),
        "dead": _("%(count)s dead since"),
        "gone": _("%(count)s no longer where the action left it"),
        "refused": _("%(count)s not taken by the queue of before"),
    }
    for reason, text in words.items():
        if count := done.left.get(reason, 0):
            yield text % {"count": exact(count)}


def about_messages(act: Act) -> bool:
    return act.model == Message._meta.model_name
