"""Who may claim from a queue with rules: the claimers' turn, and what belongs to which session."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class Turn(models.Model):
    """One row for each queue that has rules; whoever claims from it holds the row meanwhile.

    The queue's own row would not do: publishers into a limited queue hold that one until
    their transactions end, and no worker should wait for them.
    """

    queue_id = models.BigIntegerField(_("queue"), primary_key=True)

    class Meta:
        db_table = "django_mq_turn"
        verbose_name = _("turn")
        verbose_name_plural = _("turns")

    def __str__(self) -> str:
        return str(self.queue_id)


class Ownership(models.Model):
    """A group, or without one a seat in the queue itself, that belongs to a session while it lives."""

    id = models.BigAutoField(primary_key=True)
    queue_id = models.BigIntegerField(_("queue"))
    group_key = models.CharField(_("group key"), max_length=255, null=True, blank=True)  # noqa: DJ001 - null is a seat
    session_id = models.BigIntegerField(_("worker session"))

    class Meta:
        db_table = "django_mq_ownership"
        verbose_name = _("ownership")
        verbose_name_plural = _("ownerships")
        indexes: ClassVar = [
            models.Index(fields=["queue_id", "group_key"], name="django_mq_ownership_group"),
            models.Index(fields=["session_id"], name="django_mq_ownership_session"),
        ]

    def __str__(self) -> str:
        return f"{self.queue_id} {self.group_key or ''} → {self.session_id}"
