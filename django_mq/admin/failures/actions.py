"""The actions on failure groups, and on redrives in stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import line, option, reasons
from django_mq.admin.actions import Action, GoneError
from django_mq.admin.forms import Staging
from django_mq.admin.messages.actions import REDRIVE
from django_mq.admin.operations import runner
from django_mq.admin.report import log_operation
from django_mq.admin.table import alias
from django_mq.diagnosis.language import digits
from django_mq.failures import staged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest

    from django_mq.acts.models import Act
    from django_mq.admin.table import TableAdmin
    from django_mq.models import FailureGroup, StagedRedrive


def begin(
    page: TableAdmin, request: HttpRequest, group: FailureGroup, answers: Mapping[str, Any], act: Act
) -> str:
    """Begin the redrive of a group, at once or in stages; log it, and return a sentence for the user."""
    first, per_minute = answers.get("first"), answers.get("per_minute")
    user_name = request.user.get_username()
    if not first and per_minute is None:
        operation = runner.begin(REDRIVE, staged.filters_of(group.pk), {}, act=act)
        sentence = _("The redrive of the dead letters of this group has begun: operation #%(number)s.")
        log_operation(request, operation, sentence % {"number": operation.pk})
        return sentence % {"number": operation.pk}
    redrive = staged.begin(group, first=first or 0, per_minute=per_minute, user_name=user_name, using=alias())
    sentence = _("The redrive in stages #%(number)s has begun: a worker takes the first step within seconds.")
    sentence %= {"number": redrive.pk}
    page.log_entry(request, group, f"{sentence} {plan_of(redrive)}")
    return sentence


def plan_of(redrive: StagedRedrive) -> str:
    """Return what a redrive was asked for, in words."""
    words = []
    if redrive.first:
        words.append(_("first %(count)s, then the rest") % {"count": redrive.first})
    if redrive.per_minute is not None:
        words.append(_("at most %(count)s a minute") % {"count": digits(redrive.per_minute)})
    return ", ".join(words) or _("all at once")


def _command(group: FailureGroup, answers: Mapping[str, Any]) -> str:
    first, per_minute = answers.get("first"), answers.get("per_minute")
    if answers and not first and per_minute is None:
        return line("mq_redrive", option("failure", group.pk), *reasons(answers))
    rate = [] if per_minute is None else [option("per-minute", f"{per_minute:g}")]
    first_of = option("first", (first or 0) if answers else None)
    return line("mq_failures", option("redrive", group.pk), first_of, *rate, *reasons(answers))


def _stop(
    _page: TableAdmin, _request: HttpRequest, redrive: StagedRedrive, _answers: Mapping[str, Any], _act: Act
) -> str:
    if not staged.stop(redrive.pk, using=alias()):
        raise GoneError(_("%(redrive)s does not run.") % {"redrive": redrive})
    return _("%(redrive)s has stopped.") % {"redrive": redrive}


def _go_on(
    _page: TableAdmin, request: HttpRequest, redrive: StagedRedrive, _answers: Mapping[str, Any], _act: Act
) -> str:
    if not staged.go_on(redrive.pk, user_name=request.user.get_username(), using=alias()):
        raise GoneError(_("%(redrive)s has not stopped.") % {"redrive": redrive})
    return _("%(redrive)s goes on, in spite of the failures until now.") % {"redrive": redrive}


REDRIVE_GROUP = Action(
    name="redrive",
    permission=staged.PERMISSION,
    label=gettext_lazy("Redrive this group"),
    run=begin,
    question=Staging,
    command=_command,
    warning=gettext_lazy(
        "The dead letters whose last attempt failed in this way return to the queues they came from. Their "
        "attempts start again. If some go first, or at a rate, the first failure of one of them stops the redrive."
    ),
)
ACTIONS = (REDRIVE_GROUP,)
STOP = Action(
    name="stop",
    permission=staged.PERMISSION,
    label=gettext_lazy("Stop"),
    run=_stop,
    command=lambda redrive, _answers: line("mq_failures", option("stop", redrive.pk)),
)
GO_ON = Action(
    name="go_on",
    permission=staged.PERMISSION,
    label=gettext_lazy("Continue"),
    run=_go_on,
    command=lambda redrive, _answers: line("mq_failures", option("continue", redrive.pk)),
)
STEERING = (STOP, GO_ON)
