"""The results of messages that were published with ``keep_result_seconds``."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class MessageResult(models.Model):
    """How a message has ended, and what its handler has returned."""

    message_id = models.UUIDField(_("message id"), primary_key=True, editable=False)
    queue_name = models.CharField(_("queue"), max_length=200)
    status = models.CharField(_("status"), max_length=20)
    # JSON, or, if middleware changes bodies, the bytes that it has made, in base64.
    value = models.TextField(_("result"), null=True)  # noqa: DJ001 - null: the handler has returned nothing
    content_encoding = models.CharField(_("content encoding"), max_length=100)
    finished_at = UTCDateTimeField(_("finished at"))
    expires_at = UTCDateTimeField(_("expires at"), db_index=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_messageresult"
        verbose_name = _("result of a message")
        verbose_name_plural = _("results of messages")

    def __str__(self) -> str:
        return str(self.message_id)


class MessageProgress(models.Model):
    """What the handler of a message has last reported."""

    message_id = models.UUIDField(_("message id"), primary_key=True, editable=False)
    queue_name = models.CharField(_("queue"), max_length=200)
    fraction = models.FloatField(_("progress"))
    text = models.CharField(_("text"), max_length=200, blank=True)
    attempt = models.PositiveIntegerField(_("attempt"))
    reported_at = UTCDateTimeField(_("reported at"), db_index=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_messageprogress"
        verbose_name = _("progress of a message")
        verbose_name_plural = _("progress of messages")

    def __str__(self) -> str:
        return str(self.message_id)
