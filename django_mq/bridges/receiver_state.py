"""What receivers do, for operators, and which process has them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.receivers import ReceiverCondition
from django_mq.models.times import UTCDateTimeField


class ReceiverState(models.Model):
    """What a receiver of the settings does. The process that has it writes the row every few seconds."""

    class ReceiverStatus(models.TextChoices):
        RECEIVES = ReceiverCondition.RECEIVES.value, _("receives")
        AWAY = ReceiverCondition.AWAY.value, _("broker away")
        BLOCKED = ReceiverCondition.BLOCKED.value, _("blocked")
        STOPPED = ReceiverCondition.STOPPED.value, _("stopped")

    name = models.CharField(_("receiver"), max_length=100, unique=True)
    state = models.CharField(
        _("status"), max_length=10, choices=ReceiverStatus.choices, default=ReceiverCondition.STOPPED.value
    )
    #: Since when it is in this state.
    since = UTCDateTimeField(_("since"), null=True)
    #: What is wrong, without credentials; blank if nothing is.
    problem = models.TextField(_("problem"), blank=True, default="")
    #: The process that has it, and until when no other one may.
    holder = models.CharField(_("process"), max_length=255, blank=True, default="")
    held_until = UTCDateTimeField(null=True)
    #: What has come, as of the last write of this row.
    received = models.PositiveBigIntegerField(_("received"), default=0)
    duplicates = models.PositiveBigIntegerField(_("duplicates"), default=0)
    kept = models.PositiveBigIntegerField(_("kept as dead letters"), default=0)
    last_at = UTCDateTimeField(_("last message"), null=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_receiver"
        verbose_name = _("receiver")
        verbose_name_plural = _("receivers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
