"""The past: finished messages, failed attempts, task results, and the figures of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class History(models.Model):
    """One row for each message that has left its queue; append-only, pruned by age.

    A message that went on to another queue has a row for each queue that it has left.
    """

    class Outcome(models.IntegerChoices):
        ACCEPTED = 1, _("accepted")
        EXPIRED = 2, _("expired")
        CANCELLED = 3, _("cancelled")
        PURGED = 4, _("purged")
        REPLACED = 5, _("replaced")
        DEAD = 6, _("sent to the dead-letter queue")
        MOVED = 7, _("moved to another queue")
        LIMITED = 8, _("over its limit")
        FORWARDED = 9, _("forwarded")

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(_("message id"))
    queue_name = models.CharField(_("queue"), max_length=200)
    type = models.CharField(_("type"), max_length=255, default="", blank=True)
    correlation_id = models.CharField(_("correlation id"), max_length=255, null=True, blank=True)  # noqa: DJ001 - copied from the message as it is
    priority = models.PositiveSmallIntegerField(_("priority"))
    outcome = models.PositiveSmallIntegerField(_("outcome"), choices=Outcome.choices)
    attempts = models.PositiveIntegerField(_("failed attempts"), help_text=_("Deliveries that failed before."))
    published_at = UTCDateTimeField(_("published at"))
    ready_at = UTCDateTimeField(_("ready at"))
    claimed_at = UTCDateTimeField(_("claimed at"), null=True, blank=True)
    finished_at = UTCDateTimeField(_("finished at"))
    session_id = models.BigIntegerField(_("worker session"), null=True, blank=True)
    redelivered = models.BooleanField(
        _("redelivered"), null=True, blank=True, help_text=_("Whether its last delivery was not its first.")
    )
    headers = models.JSONField(_("headers"), null=True, blank=True)
    body = models.BinaryField(_("body"), null=True, blank=True)

    class Meta:
        db_table = "django_mq_history"
        verbose_name = _("finished message")
        verbose_name_plural = _("finished messages")
        ordering = ["-id"]
        indexes = [
            models.Index("finished_at", name="django_mq_history_pruning"),
            models.Index("message_id", name="django_mq_history_message"),
            models.Index(
                fields=["correlation_id"], name="django_mq_history_corr", condition=Q(correlation_id__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return str(self.message_id)


class Attempt(models.Model):
    """One delivery that failed, with its traceback."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(_("message id"), null=True, blank=True)
    correlation_id = models.CharField(_("correlation id"), max_length=255, null=True, blank=True)  # noqa: DJ001 - null keeps native attempts out of the index
    queue_name = models.CharField(_("queue"), max_length=200)
    type = models.CharField(_("type"), max_length=255, default="", db_default="", blank=True)
    number = models.PositiveIntegerField(_("attempt"))
    failed_at = UTCDateTimeField(_("failed at"))
    worker = models.CharField(_("worker"), max_length=255, default="", blank=True)
    error = models.CharField(_("error"), max_length=255)
    #: The module and the qualified name of the exception's class; blank in rows of earlier releases.
    error_path = models.CharField(_("exception"), max_length=255, default="", db_default="", blank=True)
    detail = models.TextField(_("detail"), default="", blank=True)
    traceback = models.TextField(_("traceback"), default="", blank=True)

    class Meta:
        db_table = "django_mq_attempt"
        verbose_name = _("failed attempt")
        verbose_name_plural = _("failed attempts")
        ordering = ["-id"]
        indexes = [
            models.Index("message_id", name="django_mq_attempt_message"),
            models.Index("correlation_id", name="django_mq_attempt_corr"),
            models.Index("failed_at", name="django_mq_attempt_pruning"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id or self.correlation_id} #{self.number}"


class TaskResult(models.Model):
    """A task that has been started, with its value or errors, or that was removed. Deleted after some time.

    A task that waits for its first attempt has no row; its message is enough.
    """

    #: The message's id, which is also the result's.
    message_id = models.UUIDField(_("message id"), primary_key=True)
    successful = models.BooleanField(_("successful"))
    queue_name = models.CharField(_("queue"), max_length=200)
    # JSON as text: JSON columns refuse null characters, which a task may return.
    record = models.TextField(
        _("record"), help_text=_("The task as it was published, its value, its errors and its workers, as JSON.")
    )
    #: Null for a message that was removed before the first attempt.
    started_at = UTCDateTimeField(_("started at"), null=True)
    last_attempted_at = UTCDateTimeField(_("last attempted at"), null=True)
    finished_at = UTCDateTimeField(_("finished at"))
    expires_at = UTCDateTimeField(_("expires at"))

    class Meta:
        db_table = "django_mq_taskresult"
        verbose_name = _("task result")
        verbose_name_plural = _("task results")
        ordering = ["-finished_at"]
        indexes = [models.Index(fields=["expires_at"], name="django_mq_taskresult_pruning")]

    def __str__(self) -> str:
        return str(self.message_id)


class Rollup(models.Model):
    """The figures of one type in one queue over a minute, ten minutes or an hour, as ``engine.rollups`` has them.

    The row with an empty queue name has the figures of all queues, and says that the step has been summed up: a
    queue in which nothing happened has no row.
    """

    id = models.BigAutoField(primary_key=True)
    seconds = models.PositiveIntegerField(_("length in seconds"), default=60)
    begins_at = UTCDateTimeField(_("begins at"))
    queue_name = models.CharField(_("queue"), max_length=200, blank=True)
    type = models.CharField(_("type"), max_length=255, default="", blank=True)
    minutes = models.PositiveSmallIntegerField(_("known minutes"), default=1)
    arrived = models.PositiveBigIntegerField(_("arrived"), default=0)
    accepted = models.PositiveBigIntegerField(_("accepted"), default=0)
    expired = models.PositiveBigIntegerField(_("expired"), default=0)
    removed = models.PositiveBigIntegerField(_("removed otherwise"), default=0)
    dead = models.PositiveBigIntegerField(_("died"), default=0)
    failed = models.PositiveBigIntegerField(_("failed attempts"), default=0)
    redelivered = models.PositiveBigIntegerField(_("redelivered"), default=0)
    ready = models.PositiveBigIntegerField(_("ready"), null=True)
    claimed = models.PositiveBigIntegerField(_("claimed"), null=True)
    wait_seconds = models.FloatField(_("waited in all"), default=0.0)
    run_seconds = models.FloatField(_("held in all"), default=0.0)
    # JSON as text: it is read as a whole, and many at once.
    waits = models.TextField(_("histogram of waits"), default="{}")
    runs = models.TextField(_("histogram of times held"), default="{}")
    newest = models.BigIntegerField(
        _("newest message"), null=True, help_text=_("Highest message id when the minute was summed up.")
    )
    counted = models.BigIntegerField(
        _("counted rows"), default=0, help_text=_("Finished messages and failed attempts when it was summed up.")
    )

    class Meta:
        db_table = "django_mq_rollupstep"
        verbose_name = _("rollup")
        verbose_name_plural = _("rollups")
        ordering = ["-begins_at", "queue_name", "type"]
        constraints = [
            models.UniqueConstraint(
                fields=["seconds", "begins_at", "queue_name", "type"], name="django_mq_rollupstep_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.type} {self.begins_at:%Y-%m-%d %H:%M}"
