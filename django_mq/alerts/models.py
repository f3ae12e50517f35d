"""Alerts, and what targets are told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.alerts import MOST_CHARACTERS, AlertNews
from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class RecordedAlert(models.Model):
    """Something that needs a look, or did: from its beginning until it was last found."""

    class LevelName(models.TextChoices):
        NOTICE = "notice", _("notice")
        PROBLEM = "problem", _("problem")

    id = models.BigAutoField(primary_key=True)
    #: A kind of the overview's alerts, "extension" or "doctor".
    cause = models.CharField(_("cause"), max_length=20)
    about = models.CharField(_("about"), max_length=255, blank=True, default="")
    #: The worst that it has been.
    level = models.CharField(_("level"), max_length=10, choices=LevelName.choices)
    sentence = models.TextField(_("sentence"))
    began_at = UTCDateTimeField(_("since"))
    seen_at = UTCDateTimeField(_("last found"))
    ended_at = UTCDateTimeField(_("until"), null=True, blank=True)
    #: Names the cause and what it is about, until the alert is over: there is one such row.
    standing = models.UUIDField(null=True, blank=True, unique=True, editable=False)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_alert"
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        ordering = ["-id"]
        indexes = [models.Index("ended_at", name="django_mq_alert_ended")]

    def __str__(self) -> str:
        return f"{self.cause} {self.about}".rstrip()

    @property
    def lasted(self) -> timedelta:
        """How long it has been found."""
        begin: datetime = self.began_at
        end: datetime = self.ended_at or self.seen_at
        return end - begin


class AlertNotice(models.Model):
    """What one target is told of an alert: that it began, or is over."""

    class NewsName(models.TextChoices):
        BEGAN = AlertNews.BEGAN.value, _("began")
        OVER = AlertNews.OVER.value, _("over")

    id = models.BigAutoField(primary_key=True)
    alert = models.ForeignKey(RecordedAlert, models.CASCADE, related_name="notices", verbose_name=_("alert"))
    #: The name in the settings. The address is nowhere but there.
    target = models.CharField(_("target"), max_length=MOST_CHARACTERS)
    news = models.CharField(_("news"), max_length=10, choices=NewsName.choices)
    tries = models.PositiveIntegerField(_("tries"), default=0)
    #: When to send it; null: it was sent, or is given up.
    next_at = UTCDateTimeField(_("next try"), null=True, blank=True)
    sent_at = UTCDateTimeField(_("sent"), null=True, blank=True)
    error = models.CharField(_("error"), max_length=200, blank=True, default="")

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_alertnotice"
        verbose_name = _("alert sent")
        verbose_name_plural = _("alerts sent")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["alert", "target", "news"], name="django_mq_alertnotice_once")
        ]
        indexes = [models.Index("next_at", "id", name="django_mq_alertnotice_next")]

    def __str__(self) -> str:
        return f"{self.target} {self.news}"
