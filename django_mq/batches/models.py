"""Batches and their members."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.batches import BatchCounts, BatchState, MemberState
from django_mq.models.times import UTCDateTimeField


class MessageBatch(models.Model):
    """Messages that belong together. The maintenance writes the counts when they change, and no publisher does."""

    #: The fields with the counts, in the order of ``BatchCounts``.
    COUNTED: ClassVar = ("waiting", "succeeded", "failed", "cancelled")

    class BatchStatus(models.TextChoices):
        OPEN = BatchState.OPEN.value, _("open")
        RUNNING = BatchState.RUNNING.value, _("running")
        SUCCEEDED = BatchState.SUCCEEDED.value, _("succeeded")
        FAILED = BatchState.FAILED.value, _("failed")
        CANCELLED = BatchState.CANCELLED.value, _("cancelled")

    id = models.UUIDField(_("batch id"), primary_key=True, editable=False)
    name = models.CharField(_("name"), max_length=200, blank=True, default="")
    state = models.CharField(
        _("status"), max_length=10, choices=BatchStatus.choices, default=BatchState.OPEN.value
    )
    # What to publish, as JSON; blank for nothing.
    on_complete = models.TextField(_("when complete"), blank=True, default="")
    on_success = models.TextField(_("when successful"), blank=True, default="")
    on_failure = models.TextField(_("at the first failure"), blank=True, default="")
    #: When each of them was published.
    complete_at = UTCDateTimeField(null=True)
    success_at = UTCDateTimeField(null=True)
    failure_at = UTCDateTimeField(null=True)
    #: Why a callback is not published yet.
    problem = models.TextField(_("problem"), blank=True, default="")
    created_at = UTCDateTimeField(_("created"))
    cancelled_at = UTCDateTimeField(_("cancelled at"), null=True)
    ended_at = UTCDateTimeField(_("ended"), null=True)
    #: When the messages of its members that wait were looked for last, and up to which member, if not all were.
    checked_at = UTCDateTimeField(null=True)
    checked_to = models.UUIDField(null=True)
    #: How many members have ended because their messages were gone, and when the last of them.
    vanished = models.PositiveIntegerField(null=True)
    vanished_at = UTCDateTimeField(null=True)
    #: Is written to lock the row.
    locked_at = UTCDateTimeField(null=True)
    counted_at = UTCDateTimeField(_("counted at"), null=True)
    waiting = models.PositiveIntegerField(_("waiting"), default=0)
    succeeded = models.PositiveIntegerField(_("succeeded"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)
    cancelled = models.PositiveIntegerField(_("cancelled"), default=0)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_batch"
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        ordering = ["-created_at"]
        permissions: ClassVar = [
            ("close_messagebatch", "Can close a batch"),
            ("cancel_messagebatch", "Can cancel a batch"),
            ("redrive_messagebatch", "Can redrive the failures of a batch"),
        ]
        indexes = [
            models.Index(fields=["state", "created_at"], name="django_mq_batch_state"),
            models.Index(fields=["created_at"], name="django_mq_batch_created"),
            models.Index(fields=["vanished_at"], name="django_mq_batch_vanished"),
        ]

    def __str__(self) -> str:
        return self.name or str(self.id)

    @property
    def counts(self) -> BatchCounts:
        """The counts of the row."""
        return BatchCounts(self.waiting, self.succeeded, self.failed, self.cancelled)


class BatchMember(models.Model):
    """A message of a batch, or a Celery task with its retries."""

    class MemberStatus(models.IntegerChoices):
        WAITING = MemberState.WAITING.value, _("waiting")
        SUCCEEDED = MemberState.SUCCEEDED.value, _("succeeded")
        FAILED = MemberState.FAILED.value, _("failed")
        CANCELLED = MemberState.CANCELLED.value, _("cancelled")

    #: A header of its messages has it. Those of one publish are in the order in which they were published.
    id = models.UUIDField(primary_key=True, editable=False)
    # Without a constraint: it would lock the row of the batch for each member.
    batch: Any = models.ForeignKey(
        MessageBatch, models.DO_NOTHING, related_name="members", db_constraint=False, db_index=False
    )
    state = models.PositiveSmallIntegerField(choices=MemberStatus.choices, default=MemberState.WAITING.value)
    #: The message that was published, or, of a member that has failed, the one that failed last.
    message_id = models.UUIDField(_("message id"))
    queue_name = models.CharField(_("queue"), max_length=200)
    #: The id of a Celery task, whose retries are messages with other ids; blank for other messages.
    task_id = models.CharField(_("task id"), max_length=255, blank=True, default="")
    ended_at = UTCDateTimeField(_("ended"), null=True)
    #: Since when it waits, and no queue has its message.
    missing_at = UTCDateTimeField(null=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_batchmember"
        verbose_name = _("member of a batch")
        verbose_name_plural = _("members of batches")
        indexes = [models.Index(fields=["batch", "state", "id"], name="django_mq_batchmember_state")]

    def __str__(self) -> str:
        return str(self.message_id)
