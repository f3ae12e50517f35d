"""The actions on batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.acts import recorder
from django_mq.acts.command_lines import line, reasons
from django_mq.admin.actions import Action, GoneError
from django_mq.admin.forms import Confirmation
from django_mq.admin.table import alias
from django_mq.batches import steering
from django_mq.diagnosis.language import exact
from django_mq.engine.decisions.batches import LIVE, BatchState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.acts.models import Act
    from django_mq.batches.models import MessageBatch

#: The most chunks of members that one request changes.
MOST_CHUNKS: Final = 10


class AlsoRunning(forms.Form):
    running = forms.BooleanField(
        label=gettext_lazy("Also stop what runs"),
        required=False,
        help_text=gettext_lazy("Workers are asked to end the members that they handle. Otherwise these go on."),
    )


def _close(row: MessageBatch, _answers: Mapping[str, Any]) -> str:
    words = {"batch": row}
    if row.state != BatchState.OPEN.value:
        raise GoneError(_("“%(batch)s” is closed already.") % words)
    if steering.settled(row.pk, close=True, using=alias()) in LIVE:
        return _("“%(batch)s” is closed: it ends with its last member.") % words
    return _("“%(batch)s” is closed, and has ended.") % words


def _cancel(row: MessageBatch, answers: Mapping[str, Any], act: Act) -> str:
    if row.state not in steering.LIVE_STATES:
        raise GoneError(_("“%(batch)s” has ended already.") % {"batch": row})
    done = steering.cancel(
        row.pk,
        running=bool(answers.get("running")),
        most=MOST_CHUNKS,
        using=alias(),
        perform=partial(recorder.perform, act),
        stop_begun=partial(recorder.stop_begun, act),
    )
    words = ngettext(
        "“%(batch)s” is cancelled: %(count)s member is removed.",
        "“%(batch)s” is cancelled: %(count)s members are removed.",
        done.changed,
    ) % {"batch": row, "count": exact(done.changed)}
    if done.asked:
        asked = ngettext("%(count)s is asked to stop.", "%(count)s are asked to stop.", done.asked)
        words = f"{words} {asked % {'count': exact(done.asked)}}"
    return words if done.is_whole else f"{words} {_('Workers remove the rest.')}"


def _redrive(row: MessageBatch, _answers: Mapping[str, Any], act: Act) -> str:
    perform = partial(recorder.perform, act)
    done = steering.redrive(row.pk, most=MOST_CHUNKS, using=alias(), perform=perform)
    if not done.changed:
        raise GoneError(_("No member of “%(batch)s” is a dead letter.") % {"batch": row})
    words = ngettext(
        "%(count)s dead letter of “%(batch)s” is redriven.",
        "%(count)s dead letters of “%(batch)s” are redriven.",
        done.changed,
    ) % {"batch": row, "count": exact(done.changed)}
    return words if done.is_whole else f"{words} {_('There are more: redrive again.')}"


def _delete(row: MessageBatch, _answers: Mapping[str, Any]) -> str:
    words = {"batch": row}
    if steering.delete(row.pk, using=alias()):
        return _("“%(batch)s” is deleted.") % words
    return _("“%(batch)s” is deleted; workers delete the rest of its members.") % words


CLOSE = Action(
    name="close",
    permission="close_messagebatch",
    label=gettext_lazy("Close to new members"),
    run=_close,
    question=Confirmation,
    warning=gettext_lazy(
        "The batch takes no more members, except from handlers of its members. It ends with its last member, and "
        "what is published then is published."
    ),
    command=lambda row, _answers: line("mq_batches", names=["close", row.pk]),
)
CANCEL = Action(
    name="cancel",
    permission="cancel_messagebatch",
    label=gettext_lazy("Cancel"),
    run=_cancel,
    counts=True,
    question=AlsoRunning,
    warning=gettext_lazy(
        "Members that no worker has begun are removed, and the batch takes no more. It ends when those that run "
        "have ended; what is published when it is complete is published then."
    ),
    harmful=True,
    command=lambda row, answers: line(
        "mq_batches",
        *(["--running"] if answers.get("running") else []),
        *reasons(answers),
        names=["cancel", row.pk],
    ),
)
REDRIVE = Action(
    name="redrive",
    permission="redrive_messagebatch",
    label=gettext_lazy("Redrive failures"),
    run=_redrive,
    counts=True,
    question=Confirmation,
    warning=gettext_lazy(
        "The dead letters of its members return to the queues they came from, and their attempts start again. The "
        "batch runs until they have ended. What it has published is not published again."
    ),
    command=lambda row, answers: line("mq_batches", *reasons(answers), names=["redrive", row.pk]),
)
DELETE = Action(
    name="delete",
    permission="delete_messagebatch",
    label=gettext_lazy("Delete"),
    run=_delete,
    question=Confirmation,
    warning=gettext_lazy(
        "The counts and the members of the batch are forgotten. Its messages and dead letters stay. A batch that "
        "has not ended is not deleted."
    ),
    harmful=True,
    command=lambda row, _answers: line("mq_batches", names=["delete", row.pk]),
)
ACTIONS = (CLOSE, CANCEL, REDRIVE, DELETE)
