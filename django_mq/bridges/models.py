"""The connections of workers to other brokers, as operators see them. Nothing in the rows is a credential."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class BridgeLink(models.Model):
    """One worker's connection to the broker of a bridge. The worker writes it while it lives."""

    class LinkState(models.TextChoices):
        CONNECTED = "connected", _("connected")
        BLOCKED = "blocked", _("blocked by the broker")
        AWAY = "away", _("cannot reach the broker")

    bridge = models.CharField(_("bridge"), max_length=100)
    worker = models.CharField(_("worker"), max_length=255)
    state = models.CharField(_("status"), max_length=10, choices=LinkState.choices)
    since = UTCDateTimeField(_("since"))
    confirms = models.BooleanField(_("the broker confirms"), default=True)
    forwarded = models.BigIntegerField(_("forwarded"), default=0)
    dead = models.BigIntegerField(_("dead letters"), default=0)
    #: Of the last seconds.
    per_second = models.FloatField(_("messages a second"), default=0.0)
    error = models.TextField(_("last error"), blank=True, default="")
    error_at = UTCDateTimeField(_("time of the last error"), null=True)
    seen_at = UTCDateTimeField(_("last seen"))

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_bridgelink"
        verbose_name = _("connection of a bridge")
        verbose_name_plural = _("connections of bridges")
        ordering = ["bridge", "id"]
        indexes = [models.Index(fields=["seen_at"], name="django_mq_bridgelink_seen")]

    def __str__(self) -> str:
        return f"{self.bridge} {self.worker}"
