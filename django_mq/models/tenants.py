"""The figures of the past by tenant."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class TenantStep(models.Model):
    """The figures of one tenant in one queue, or in all (blank), over a step, as ``engine.tenants`` has them.

    Rows with a length of 0 seconds have what waits now. The row of the kind 0 says that the step is known.
    """

    id = models.BigAutoField(primary_key=True)
    seconds = models.PositiveIntegerField(_("length in seconds"))
    begins_at = UTCDateTimeField(_("begins at"))
    queue_name = models.CharField(_("queue"), max_length=200, blank=True)
    kind = models.PositiveSmallIntegerField(_("kind"))
    tenant = models.CharField(_("tenant"), max_length=255, blank=True)
    accepted = models.PositiveBigIntegerField(_("accepted"), default=0)
    failed = models.PositiveBigIntegerField(_("failed attempts"), default=0)
    dead = models.PositiveBigIntegerField(_("died"), default=0)
    waiting = models.PositiveBigIntegerField(_("waiting"), null=True)
    wait_seconds = models.FloatField(_("waited in all"), default=0.0)
    run_seconds = models.FloatField(_("held in all"), default=0.0)
    waits = models.TextField(_("histogram of waits"), default="{}")
    counted = models.BigIntegerField(
        _("counted rows"), default=0, help_text=_("Finished messages and failed attempts when it was summed up.")
    )

    every = models.PositiveIntegerField(
        _("rows for one"),
        default=1,
        help_text=_("For how many rows each row of the sample stands; 1: all were read."),
    )

    class Meta:
        db_table = "django_mq_tenantstep"
        verbose_name = _("figures of a tenant")
        verbose_name_plural = _("figures of tenants")
        ordering = ["-begins_at", "queue_name", "tenant"]
        indexes = [models.Index(fields=["seconds", "begins_at"], name="django_mq_tenantstep_age")]
        constraints = [
            models.UniqueConstraint(
                fields=["seconds", "queue_name", "kind", "begins_at", "tenant"], name="django_mq_tenantstep_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.tenant} {self.begins_at:%Y-%m-%d %H:%M}"
