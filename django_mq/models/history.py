"""What is over: finished messages, and the attempts that failed on the way."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class History(models.Model):
    """One row per finished message; append-only, pruned by age."""

    class Outcome(models.IntegerChoices):
        ACCEPTED = 1, _("accepted")
        EXPIRED = 2, _("expired")
        CANCELLED = 3, _("cancelled")
        PURGED = 4, _("purged")
        REPLACED = 5, _("replaced")

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(_("message id"))
    queue_name = models.CharField(_("queue"), max_length=200)
    type = models.CharField(_("type"), max_length=255, default="", blank=True)
    correlation_id = models.CharField(_("correlation id"), max_length=255, null=True, blank=True)  # noqa: DJ001 - copied from the message as it is
    priority = models.PositiveSmallIntegerField(_("priority"))
    outcome = models.PositiveSmallIntegerField(_("outcome"), choices=Outcome.choices)
    attempts = models.PositiveIntegerField(_("attempts"), help_text=_("Deliveries that failed before."))
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
        verbose_name_plural = _("history")
        ordering = ["-id"]
        indexes = [
            models.Index("finished_at", name="django_mq_history_pruning"),
            models.Index("message_id", name="django_mq_history_message"),
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
