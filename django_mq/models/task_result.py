"""What became of tasks of Django's own interface."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class TaskResult(models.Model):
    """One task that has been tried: its value, or what went wrong so far. Kept for a time, then pruned.

    A task that nobody has begun has no row: its message says all there is.
    """

    #: The message's id, which is the result's.
    message_id = models.UUIDField(_("message id"), primary_key=True)
    successful = models.BooleanField(_("successful"))
    queue_name = models.CharField(_("queue"), max_length=200)
    # Text, although it is JSON: a database's own JSON refuses null characters, which tasks may well return.
    record = models.TextField(
        _("record"), help_text=_("The task as it was published, its value, its errors and its workers, as JSON.")
    )
    started_at = UTCDateTimeField(_("started at"))
    last_attempted_at = UTCDateTimeField(_("last attempted at"))
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
