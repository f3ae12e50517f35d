"""The rows of workflows and of their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.workflows import StepState, WorkflowState
from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from uuid import UUID


class WorkflowRun(models.Model):
    """One run of a workflow, with the graph that it began with."""

    class Status(models.TextChoices):
        RUNNING = WorkflowState.RUNNING.value, _("running")
        STOPPING = WorkflowState.STOPPING.value, _("stopping")
        COMPENSATING = WorkflowState.COMPENSATING.value, _("compensating")
        SUCCEEDED = WorkflowState.SUCCEEDED.value, _("succeeded")
        FAILED = WorkflowState.FAILED.value, _("failed")
        CANCELLED = WorkflowState.CANCELLED.value, _("cancelled")

    id: models.UUIDField[UUID, UUID] = models.UUIDField(primary_key=True, editable=False)
    name = models.CharField(_("name"), max_length=200)
    version = models.CharField(_("version"), max_length=16)
    #: JSON, as ``workflows.graphs`` writes it.
    graph = models.TextField(_("steps"))
    #: JSON.
    input = models.TextField(_("input"))
    state = models.CharField(_("state"), max_length=16, choices=Status.choices, default=Status.RUNNING)
    #: Why it has failed, or was cancelled.
    reason = models.CharField(_("reason"), max_length=255, blank=True, default="")
    #: Of a workflow that does not end well: how it ends when it is undone.
    outcome = models.CharField(max_length=16, blank=True, default="", editable=False)
    #: The steps that have not ended.
    open_steps = models.PositiveIntegerField(_("steps that have not ended"), default=0)
    #: How many steps it has; null: it was started before this was written.
    step_count = models.PositiveIntegerField(_("steps"), null=True, editable=False)
    #: The topmost workflow: a change of a workflow, or of its steps, locks the row of this one.
    root = models.UUIDField(editable=False)
    #: The step that waits for it.
    parent: models.ForeignKey[StepRun | None, StepRun | None] = models.ForeignKey(
        "StepRun", null=True, on_delete=models.CASCADE, related_name="children", verbose_name=_("step of")
    )
    #: Unique among workflows that have not ended.
    key_name = models.CharField(max_length=64, null=True, unique=True, editable=False)  # noqa: DJ001 - null for no key
    #: The key that it had, for people.
    label = models.CharField(_("unique key"), max_length=255, blank=True, default="")
    created_at = UTCDateTimeField(_("started"))
    deadline_at = UTCDateTimeField(_("deadline"), null=True)
    ended_at = UTCDateTimeField(_("ended"), null=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_workflowrun"
        verbose_name = _("workflow")
        verbose_name_plural = _("workflows")
        ordering = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["state", "ended_at"], name="django_mq_workflow_state"),
            models.Index(fields=["deadline_at"], name="django_mq_workflow_deadline"),
            models.Index(fields=["created_at"], name="django_mq_workflow_created"),
            models.Index(fields=["root"], name="django_mq_workflow_root"),
        ]
        permissions: ClassVar = [
            ("retry_workflowrun", _("Can retry workflows")),
            ("cancel_workflowrun", _("Can cancel workflows")),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.label}".strip()


class StepRun(models.Model):
    """One step of a run: the step itself (number -1), or one item of a step that runs for each."""

    class Status(models.TextChoices):
        WAITING = StepState.WAITING.value, _("waiting")
        READY = StepState.READY.value, _("published")
        HELD = StepState.HELD.value, _("waits for its workflows")
        SUCCEEDED = StepState.SUCCEEDED.value, _("succeeded")
        FAILED = StepState.FAILED.value, _("failed")
        SKIPPED = StepState.SKIPPED.value, _("skipped")
        BLOCKED = StepState.BLOCKED.value, _("not run")
        CANCELLED = StepState.CANCELLED.value, _("cancelled")
        COMPENSATING = StepState.COMPENSATING.value, _("compensating")
        COMPENSATED = StepState.COMPENSATED.value, _("compensated")
        STUCK = StepState.STUCK.value, _("not compensated")

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(WorkflowRun, on_delete=models.CASCADE, related_name="steps", db_index=False)
    name = models.CharField(_("name"), max_length=100)
    number = models.IntegerField(_("number"), default=-1)
    state = models.CharField(_("state"), max_length=16, choices=Status.choices, default=Status.WAITING)
    #: What it waits for: the steps before it; then its items, or its sub-workflows.
    waits = models.IntegerField(default=0)
    #: Its items, or its sub-workflows, that have not succeeded.
    failed = models.IntegerField(default=0)
    #: How many items it has; null: it runs once.
    items = models.IntegerField(_("items"), null=True)
    #: JSON; null: it has not succeeded, or it has items.
    result = models.TextField(_("result"), null=True)  # noqa: DJ001 - JSON has a null of its own
    #: JSON, of an item.
    item = models.TextField(_("item"), null=True)  # noqa: DJ001 - as above
    reason = models.CharField(_("reason"), max_length=255, blank=True, default="")
    message_id = models.UUIDField(_("message"), null=True)
    ended_at = UTCDateTimeField(_("ended"), null=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_steprun"
        verbose_name = _("step of a workflow")
        verbose_name_plural = _("steps of workflows")
        ordering = ["run", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "name", "number"], name="django_mq_step_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["message_id"], name="django_mq_step_message")]

    def __str__(self) -> str:
        return self.name if self.number < 0 else f"{self.name} {self.number}"
