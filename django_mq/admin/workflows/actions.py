"""The actions on workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import line, option
from django_mq.admin.actions import Action
from django_mq.admin.forms import Confirmation
from django_mq.admin.table import alias
from django_mq.workflows.verbs import cancel_workflow, delete_workflow, retry_workflow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.workflows.models import WorkflowRun


class CancelReason(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=200,
        required=False,
        widget=AdminTextInputWidget,
        help_text=gettext_lazy("Shown wherever the workflow is shown."),
    )


def _cancel(run: WorkflowRun, answers: Mapping[str, Any]) -> str:
    cancel_workflow(run.pk, reason=answers.get("reason") or "", using=alias())
    return _("Workflow “%(name)s” is cancelled: what runs is asked to end.") % {"name": run}


def _retry(run: WorkflowRun, _answers: Mapping[str, Any]) -> str:
    retry_workflow(run.pk, using=alias())
    return _("Workflow “%(name)s” runs again what has not succeeded.") % {"name": run}


def _delete(run: WorkflowRun, _answers: Mapping[str, Any]) -> str:
    delete_workflow(run.pk, using=alias())
    return _("Workflow “%(name)s” is deleted, with the results of its steps.") % {"name": run}


CANCEL = Action(
    name="cancel",
    permission="cancel_workflowrun",
    label=gettext_lazy("Cancel"),
    run=_cancel,
    question=CancelReason,
    harmful=True,
    warning=gettext_lazy(
        "Nothing more begins, waiting messages are cancelled, handlers that run are asked to end, and steps that "
        "have succeeded are undone if they have a compensation."
    ),
    command=lambda row, answers: line(
        "mq_workflows", option("reason", answers.get("reason")), names=["cancel", row.pk]
    ),
)
RETRY = Action(
    name="retry",
    permission="retry_workflowrun",
    label=gettext_lazy("Retry from the failed step"),
    run=_retry,
    question=Confirmation,
    warning=gettext_lazy(
        "What has not succeeded runs again, with new messages in place of the dead letters. What has succeeded is "
        "kept. The deadline is removed."
    ),
    command=lambda row, _answers: line("mq_workflows", names=["retry", row.pk]),
)
DELETE = Action(
    name="delete",
    permission="delete_workflowrun",
    label=gettext_lazy("Delete"),
    run=_delete,
    question=Confirmation,
    harmful=True,
    warning=gettext_lazy(
        "The workflow, its sub-workflows and the results of their steps are deleted. Dead letters stay in their "
        "queues."
    ),
    command=lambda row, _answers: line("mq_workflows", names=["delete", row.pk]),
)
ACTIONS = (RETRY, CANCEL, DELETE)
