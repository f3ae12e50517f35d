"""What limits by key have used, what handlers have learned of them, and what operators allow single keys."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.rates import Rate
from django_mq.errors import OutOfRange


class LimitKey(models.Model):
    """How much of a limit one key has used. Times are seconds since 1970, by the database's clock."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    limit_name = models.CharField(_("limit"), max_length=50)
    limited_key = models.CharField(_("key"), max_length=255)
    free_at = models.FloatField(editable=False)
    seen_at = models.FloatField(editable=False)

    class Meta:
        db_table = "django_mq_limitkey"
        constraints = [
            models.UniqueConstraint(
                fields=["queue_name", "limit_name", "limited_key"], name="django_mq_limitkey_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.limit_name} {self.limited_key}"


class LimitHold(models.Model):
    """Until when nothing of a key begins, because a handler has learned so from its service."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    limit_name = models.CharField(_("limit"), max_length=50)
    limited_key = models.CharField(_("key"), max_length=255)
    held_until = models.FloatField(editable=False)

    class Meta:
        db_table = "django_mq_limithold"
        indexes = [models.Index("queue_name", "held_until", name="django_mq_limithold_queue")]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.limit_name} {self.limited_key}"


class LimitException(models.Model):
    """What an operator allows one key, instead of what the code says."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    limit_name = models.CharField(_("limit"), max_length=50, help_text=_("The name of the limit in the code."))
    limited_key = models.CharField(_("key"), max_length=255)
    amount = models.FloatField(_("messages"))
    seconds = models.FloatField(_("in seconds"))
    burst = models.FloatField(_("at once"), default=1)

    class Meta:
        db_table = "django_mq_limitexception"
        verbose_name = _("exception of a limit")
        verbose_name_plural = _("exceptions of limits")
        constraints = [
            models.UniqueConstraint(
                fields=["queue_name", "limit_name", "limited_key"], name="django_mq_limitexception_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.limit_name} {self.limited_key}"

    def clean(self) -> None:
        try:
            Rate(self.amount, self.seconds, self.burst)
        except OutOfRange as error:
            raise ValidationError(str(error)) from error
