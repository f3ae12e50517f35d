"""The keys of unique messages."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class UniqueKey(models.Model):
    """A unique key, and the message that took it last. Whether it is free, the message says."""

    class Until(models.TextChoices):
        BEGINS = "begins", _("it begins")
        FINISHED = "finished", _("it is finished")
        WINDOW = "window", _("its time has passed")

    # Names the key within its queue or type, in one length. There is no other index: each costs a publish a tenth.
    digest = models.CharField(max_length=64, primary_key=True, editable=False)
    label = models.CharField(_("key"), max_length=255, blank=True, default="")
    until = models.CharField(_("until"), max_length=20, choices=Until.choices)
    # What its publisher knows the message by: its id, or that of a Celery task.
    owner = models.CharField(_("publication"), max_length=255)
    message_id = models.UUIDField(_("message id"))
    first_at = UTCDateTimeField(_("taken at"))
    ends_at = UTCDateTimeField(_("ends at"), null=True, blank=True)

    class Meta:
        db_table = "django_mq_uniquekey"
        verbose_name = _("unique key")
        verbose_name_plural = _("unique keys")
        permissions: ClassVar = [("free_uniquekey", "Can free a unique key")]

    def __str__(self) -> str:
        return self.label or self.digest
