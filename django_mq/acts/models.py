"""What operators did, and with which messages."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.acts import MOST_CHARACTERS
from django_mq.models.operation import Operation
from django_mq.models.times import UTCDateTimeField


class Act(models.Model):
    """What one operator did once, in the admin or by a command."""

    class Interface(models.TextChoices):
        ADMIN = "admin", _("admin")
        COMMAND = "command", _("command")

    id = models.BigAutoField(primary_key=True)
    began_at = UTCDateTimeField(_("time"))
    #: A user of the site; of a command, the user of the operating system, and the host.
    user_name = models.CharField(_("user"), max_length=255)
    interface = models.CharField(_("by way of"), max_length=10, choices=Interface.choices)
    #: The table, and what was done to its rows: "message" and "move".
    model = models.CharField(_("table"), max_length=40)
    name = models.CharField(_("action"), max_length=40)
    #: The row, if it was one: a queue, a worker, a message.
    about = models.CharField(_("about"), max_length=255, blank=True, default="")
    sentence = models.TextField(_("what was done"), blank=True, default="")
    #: How messages were chosen: {"filters": {...}}, or {"chosen": 3} for some that were named.
    criterion = models.JSONField(_("criterion"), default=dict, blank=True)
    #: What the operator has answered or given besides, as {"target": "orders"}.
    answers = models.JSONField(_("answers"), default=dict, blank=True)
    #: The command that does the same, or that did this.
    command = models.TextField(_("command"), blank=True, default="")
    reason = models.CharField(_("reason"), max_length=MOST_CHARACTERS, blank=True, default="")
    #: How many messages were changed.
    count = models.PositiveBigIntegerField(_("messages"), default=0)
    #: The operation in the background that does it.
    operation = models.ForeignKey(Operation, models.SET_NULL, null=True, blank=True, related_name="+")
    #: The act that this one undoes.
    undoes = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="undone_by", verbose_name=_("puts back")
    )

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_act"
        verbose_name = _("act of an operator")
        verbose_name_plural = _("acts of operators")
        ordering = ["-id"]
        permissions = [("undo_act", "Can undo acts of operators")]
        indexes = [models.Index(fields=["began_at"], name="django_mq_act_began")]

    def __str__(self) -> str:
        return f"{self.model} {self.name} #{self.pk}"

    @property
    def said(self) -> str:
        """What was done, in words."""
        return self.sentence or self.name


class ActedMessage(models.Model):
    """A message that an act has changed: where it was, and where it went."""

    id = models.BigAutoField(primary_key=True)
    act = models.ForeignKey(Act, models.CASCADE, related_name="messages", verbose_name=_("act of an operator"))
    message_id = models.UUIDField(_("message id"))
    #: The row in which it was after the act.
    row_id = models.BigIntegerField(null=True, blank=True, editable=False)
    came_from = models.CharField(_("came from"), max_length=255)
    went_to = models.CharField(_("went to"), max_length=255)
    #: Whether it was dead in its queue.
    was_dead = models.BooleanField(_("was dead"), default=False)
    #: Why it was a dead letter before; blank if it was none.
    dead_reason = models.CharField(_("reason"), max_length=255, blank=True, default="")
    undone = models.BooleanField(_("put back"), default=False)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_actedmessage"
        verbose_name = _("message of an act")
        verbose_name_plural = _("messages of acts")
        ordering = ["id"]
        indexes = [models.Index(fields=["message_id"], name="django_mq_actedmessage_message")]

    def __str__(self) -> str:
        return f"{self.message_id}: {self.came_from} → {self.went_to}"
