"""The search keys of messages."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class SearchKey(models.Model):
    """A key that a message is found by. Written when it is published, and deleted after its history."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(_("message id"))
    name = models.CharField(_("name"), max_length=100)
    value = models.CharField(_("value"), max_length=255)

    class Meta:
        db_table = "django_mq_searchkey"
        verbose_name = _("search key")
        verbose_name_plural = _("search keys")
        indexes = [
            models.Index(fields=["value", "id"], name="django_mq_searchkey_value"),
            models.Index(fields=["message_id"], name="django_mq_searchkey_message"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"
