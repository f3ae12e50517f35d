"""What limits by key have used, what handlers have learned of them, and what operators allow single keys."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.keyed_limits import told_apart
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
    #: When to ask the first message that is parked for the key; null if none is.
    waiting_until = models.FloatField(null=True, blank=True, editable=False)

    class Meta:
        db_table = "django_mq_limitkey"
        constraints = [
            models.UniqueConstraint(
                fields=["queue_name", "limit_name", "limited_key"], name="django_mq_limitkey_once"
            )
        ]
        indexes = [models.Index(fields=["queue_name", "waiting_until", "id"], name="django_mq_limitkey_waiting")]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.limit_name} {self.limited_key}"


class LimitHold(models.Model):
    """Until when nothing of a key begins, because a handler has learned so from its service."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    limit_name = models.CharField(_("limit"), max_length=50)
    limited_key = models.CharField(_("key"), max_length=255)
    held_until = models.FloatField(editable=False)
    #: How long it was to last; null if an older release has written it.
    seconds = models.FloatField(null=True, editable=False)

    class Meta:
        db_table = "django_mq_limithold"
        indexes = [
            models.Index("queue_name", "held_until", name="django_mq_limithold_queue"),
            models.Index(fields=["queue_name", "limit_name", "limited_key"], name="django_mq_limithold_key"),
        ]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.limit_name} {self.limited_key}"


class LimitSlot(models.Model):
    """A message that runs, of a key of which only so many may run at once.

    It counts while the message has this claim, or while its run goes on. So nothing has to end it.
    """

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    limit_name = models.CharField(_("limit"), max_length=50)
    limited_key = models.CharField(_("key"), max_length=255)
    message_row = models.BigIntegerField()
    claim = models.BigIntegerField()

    class Meta:
        db_table = "django_mq_limitslot"
        indexes = [models.Index("queue_name", name="django_mq_limitslot_queue")]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.limit_name} {self.limited_key}"


class LimitException(models.Model):
    """What an operator allows one key, instead of what the code says."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    limit_name = models.CharField(_("limit"), max_length=50, help_text=_("The name of the limit in the code."))
    limited_key = models.CharField(
        _("key"), max_length=255, blank=True, help_text=_("Blank for a limit of the whole queue.")
    )
    amount = models.FloatField(_("messages"), null=True, blank=True)
    seconds = models.FloatField(_("in seconds"), null=True, blank=True)
    burst = models.FloatField(
        _("burst"), null=True, blank=True, help_text=_("How many begin at once after a pause.")
    )
    at_once = models.PositiveIntegerField(_("run at once"), null=True, blank=True)

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
        self.limited_key = told_apart(self.limited_key)
        if self.at_once == 0:
            raise ValidationError({"at_once": _("At least one message of a key runs at once.")})
        if (self.amount is None) != (self.seconds is None):
            raise ValidationError(_("A rate is a number of messages, and of seconds."))
        if self.amount is None or self.seconds is None:
            if self.at_once is None:
                raise ValidationError(_("Say how many messages begin in a time, or how many run at once."))
            return
        try:
            Rate(self.amount, self.seconds, 1.0 if self.burst is None else self.burst)
        except OutOfRange as error:
            raise ValidationError(str(error)) from error
