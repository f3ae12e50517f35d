"""The actions on failure groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin.actions import Action
from django_mq.admin.forms import Confirmation
from django_mq.admin.messages.actions import REDRIVE
from django_mq.admin.operations import runner
from django_mq.admin.report import log_operation
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest

    from django_mq.models import FailureGroup


def filters_of(group: FailureGroup) -> dict[str, str]:
    """Return the filters of the messages that a redrive of the group sends."""
    return {"state": DEAD_LETTERS, "failure": str(group.pk)}


def begin(request: HttpRequest, group: FailureGroup, _answers: Mapping[str, Any]) -> str:
    """Begin the redrive of the dead letters of a group; return a sentence for the user."""
    operation = runner.begin(REDRIVE, filters_of(group), {}, user_name=request.user.get_username())
    sentence = _("The redrive of the dead letters of this group has begun: operation #%(number)s.")
    sentence %= {"number": operation.pk}
    log_operation(request, operation, sentence)
    return sentence


REDRIVE_GROUP = Action(
    name="redrive",
    permission=REDRIVE.permission,
    label=gettext_lazy("Redrive this group"),
    run=begin,
    question=Confirmation,
    warning=gettext_lazy(
        "The dead letters whose last attempt failed in this way return to the queues they came from. Their "
        "attempts start again."
    ),
)
ACTIONS = (REDRIVE_GROUP,)
