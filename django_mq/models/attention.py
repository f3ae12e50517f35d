"""What operators have looked at: acknowledged dead letters, and snoozed alerts."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class AcknowledgedLetter(models.Model):
    """A dead letter that an operator has acknowledged: it stays, and is no alert any more.

    It counts for this death: a message that dies again is an alert again.
    """

    #: The row of the message.
    row_id = models.BigIntegerField(_("message"), primary_key=True)
    #: When it died; null in a dead-letter queue.
    dead_at = UTCDateTimeField(_("dead since"), null=True)
    reason = models.CharField(_("reason"), max_length=200)
    acknowledged_at = UTCDateTimeField(_("acknowledged at"))

    class Meta:
        db_table = "django_mq_acknowledgedletter"
        verbose_name = _("acknowledged dead letter")
        verbose_name_plural = _("acknowledged dead letters")

    def __str__(self) -> str:
        return str(self.row_id)


class SnoozedAlert(models.Model):
    """An alert that the overview does not show for a time."""

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(_("kind"), max_length=20)
    about = models.CharField(
        _("about"), max_length=255, default="", blank=True, help_text=_("The queue, or what an extension names.")
    )
    reason = models.CharField(_("reason"), max_length=200)
    until = UTCDateTimeField(_("until"))
    user_name = models.CharField(_("snoozed by"), max_length=255, default="", blank=True)
    created_at = UTCDateTimeField(_("since"))

    class Meta:
        db_table = "django_mq_snoozedalert"
        verbose_name = _("snoozed alert")
        verbose_name_plural = _("snoozed alerts")
        ordering = ["-until", "-id"]
        indexes: ClassVar = [models.Index(fields=["until"], name="django_mq_snoozed_until")]

    def __str__(self) -> str:
        return f"{self.kind} {self.about}".rstrip()
