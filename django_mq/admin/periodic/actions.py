"""The actions on periodic messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import line, option
from django_mq.admin.actions import Action
from django_mq.periodic import editor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.periodic.models import PeriodicMessage


class PauseReason(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=200,
        widget=AdminTextInputWidget,
        help_text=gettext_lazy("Shown wherever the periodic message is shown."),
    )


def _pause(row: PeriodicMessage, answers: Mapping[str, Any]) -> str:
    editor.pause(row, answers["reason"])
    return _("“%(name)s” is paused: %(reason)s") % {"name": row.name, "reason": answers["reason"]}


def _resume(row: PeriodicMessage, _answers: Mapping[str, Any]) -> str:
    editor.resume(row)
    return _("“%(name)s” is published again.") % {"name": row.name}


def _run(row: PeriodicMessage, _answers: Mapping[str, Any]) -> str:
    id_ = editor.run_now(row)
    if id_ is None:
        return _("“%(name)s” was discarded by a limit of its queue, or by a unique key.") % {"name": row.name}
    return _("“%(name)s” is published: %(id)s") % {"name": row.name, "id": id_}


PAUSE = Action(
    name="pause",
    permission="pause_periodicmessage",
    label=gettext_lazy("Pause"),
    run=_pause,
    question=PauseReason,
    command=lambda row, answers: line(
        "mq_periodic", option("reason", answers.get("reason")), names=["pause", row.name]
    ),
    warning=gettext_lazy("No tick is published until it is resumed. Ticks of the pause are not caught up."),
)
RESUME = Action(
    name="resume",
    permission="pause_periodicmessage",
    label=gettext_lazy("Resume"),
    run=_resume,
    command=lambda row, _answers: line("mq_periodic", names=["resume", row.name]),
)
RUN = Action(
    name="run",
    permission="run_periodicmessage",
    label=gettext_lazy("Run now"),
    run=_run,
    command=lambda row, _answers: line("mq_periodic", names=["run", row.name]),
)
ACTIONS = (PAUSE, RESUME, RUN)
