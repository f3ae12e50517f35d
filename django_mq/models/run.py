"""Runs of messages that are gone from their queues already."""

from __future__ import annotations

from django.db import models

from django_mq.models.times import UTCDateTimeField


class BegunTask(models.Model):
    """A task that was acknowledged when it began, and that still runs: its message is gone."""

    #: The row id that the message had, and the token of its claim.
    id = models.BigIntegerField(primary_key=True)
    claim = models.BigIntegerField()
    session_id = models.BigIntegerField()
    queue_name = models.CharField(max_length=200)
    message_id = models.UUIDField()
    type = models.CharField(max_length=255, default="")
    headers = models.JSONField(default=dict)
    properties = models.JSONField(null=True)
    told_to = models.CharField(max_length=255, null=True)  # noqa: DJ001 - as in the message
    began_at = UTCDateTimeField()

    class Meta:
        db_table = "django_mq_run"
        indexes = [
            models.Index("session_id", name="django_mq_run_session"),
            models.Index("message_id", name="django_mq_run_message"),
        ]

    def __str__(self) -> str:
        return str(self.message_id)
