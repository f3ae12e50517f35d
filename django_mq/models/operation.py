"""Operations on more messages than one request can handle."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.models.times import UTCDateTimeField, UTCNow


class Operation(models.Model):
    """One act on all messages that match a filter, done batch by batch; the row is its progress.

    Messages are tried in order of arrival, each once, up to the newest when it began.
    """

    class Status(models.TextChoices):
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")
        FAILED = "failed", _("failed")

    id = models.BigAutoField(primary_key=True)
    act = models.CharField(_("act"), max_length=40)
    filters = models.JSONField(_("filters"), default=dict)
    answers = models.JSONField(_("answers"), default=dict)
    user_name = models.CharField(_("started by"), max_length=255)
    status = models.CharField(_("status"), max_length=10, choices=Status.choices, default=Status.RUNNING)
    expected = models.PositiveBigIntegerField(
        _("expected"), default=0, help_text=_("Messages that matched when it began, counted up to a limit.")
    )
    tried = models.PositiveBigIntegerField(_("tried"), default=0)
    changed = models.PositiveBigIntegerField(_("changed"), default=0)
    cursor = models.BigIntegerField(_("last message tried"), default=0)
    newest = models.BigIntegerField(_("newest message when it began"))
    error = models.TextField(_("error"), blank=True, default="")
    #: The token of the process that runs it; a process that takes over writes another.
    runner = models.UUIDField(_("runner"), null=True, blank=True)
    created_at = UTCDateTimeField(_("started"))
    beat_at = UTCDateTimeField(_("last progress"))

    class Meta:
        db_table = "django_mq_operation"
        verbose_name = _("operation")
        verbose_name_plural = _("operations")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.act} #{self.pk}"


def stalled(seconds: float = STALLED_SECONDS) -> Q:
    """Return the condition that a running operation makes no progress, by the database's clock."""
    return Q(status=Operation.Status.RUNNING, beat_at__lt=UTCNow() - timedelta(seconds=seconds))
