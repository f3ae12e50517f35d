"""What each minute brought: the ground of the charts."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class Rollup(models.Model):
    """One minute of one queue, summed up when it is over; kept for two days.

    A row with an empty queue name says that the minute has been summed up: a queue in which
    nothing happened has no row. Spans are those of accepted messages, in seconds, of a
    sample where there were many.
    """

    id = models.BigAutoField(primary_key=True)
    minute = UTCDateTimeField(_("minute"))
    queue_name = models.CharField(_("queue"), max_length=200, blank=True)
    arrived = models.PositiveIntegerField(_("arrived"), default=0)
    accepted = models.PositiveIntegerField(_("accepted"), default=0)
    expired = models.PositiveIntegerField(_("expired"), default=0)
    removed = models.PositiveIntegerField(_("cancelled or purged"), default=0)
    failed = models.PositiveIntegerField(_("failed attempts"), default=0)
    redelivered = models.PositiveIntegerField(
        _("redelivered"),
        default=0,
        db_default=0,
        help_text=_("Deliveries that ended, of messages that had been delivered before."),
    )
    wait_p50 = models.FloatField(_("median wait"), null=True)
    wait_p95 = models.FloatField(_("95th percentile of the wait"), null=True)
    run_p50 = models.FloatField(_("median run"), null=True)
    run_p95 = models.FloatField(_("95th percentile of the run"), null=True)
    newest = models.BigIntegerField(
        _("newest message"), null=True, help_text=_("Highest message id when the minute was summed up.")
    )

    class Meta:
        db_table = "django_mq_rollup"
        verbose_name = _("minute")
        verbose_name_plural = _("minutes")
        ordering = ["-minute", "queue_name"]
        constraints = [models.UniqueConstraint(fields=["minute", "queue_name"], name="django_mq_rollup_once")]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.minute:%Y-%m-%d %H:%M}"
