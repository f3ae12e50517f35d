"""The volatile lane: remote control, replies and events. Small, short-lived, swept by age.

These are non-durable by declaration and chatty, so they never touch the message table.
"""

from __future__ import annotations

from django.db import models

from django_mq.models.times import UTCDateTimeField


class VolatileBinding(models.Model):
    """A volatile queue's binding to an exchange; dropped when its owner stops renewing it."""

    id = models.BigAutoField(primary_key=True)
    exchange = models.CharField(max_length=200)
    exchange_type = models.CharField(max_length=10)
    pattern = models.CharField(max_length=200, default="", blank=True)
    queue_name = models.CharField(max_length=255)
    expires_at = UTCDateTimeField()

    class Meta:
        db_table = "django_mq_volatilebinding"
        constraints = [
            models.UniqueConstraint(
                fields=["exchange", "pattern", "queue_name"], name="django_mq_volatilebinding_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.exchange} → {self.queue_name}"


class VolatileMessage(models.Model):
    """One message of the volatile lane; whoever reads it deletes it, and age deletes the rest."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(max_length=255)
    payload = models.TextField()
    expires_at = UTCDateTimeField()

    class Meta:
        db_table = "django_mq_volatilemessage"
        indexes = [models.Index("queue_name", "id", name="django_mq_volatile_queue")]

    def __str__(self) -> str:
        return f"{self.queue_name} #{self.pk}"
