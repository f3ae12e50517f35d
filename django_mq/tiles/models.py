"""The figures of the tiles at each minute."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class TileMinute(models.Model):
    """What the tiles showed in a minute."""

    begins_at = UTCDateTimeField(_("begins at"), primary_key=True)
    #: Figures by the names of their tiles. A figure that was not known is left out.
    figures = models.JSONField(_("figures"), default=dict)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_tileminute"
        verbose_name = _("minute of the tiles")
        verbose_name_plural = _("minutes of the tiles")
        ordering = ["-begins_at"]

    def __str__(self) -> str:
        return str(self.begins_at)
