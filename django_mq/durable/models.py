"""What durable handlers have done, and the events for which they wait."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.durable import NAME_LENGTH, Record, StepKind, StepOutcome
from django_mq.models.times import UTCDateTimeField


class DurableEvent(models.Model):
    """An event by its name and key: emitted, or waited for."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(_("event"), max_length=NAME_LENGTH)
    key = models.CharField(_("key"), max_length=NAME_LENGTH, blank=True)
    #: JSON.
    payload = models.TextField(_("payload"), default="null")
    #: None while it is only waited for.
    emitted_at = UTCDateTimeField(_("emitted at"), null=True, blank=True)
    expires_at = UTCDateTimeField(_("kept until"), null=True, blank=True)
    #: Each wait changes it, so that an emit in an older snapshot of the database fails, and misses no wait.
    waited_at = UTCDateTimeField(_("last waited for"), null=True, blank=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_durableevent"
        verbose_name = _("event of durable handlers")
        verbose_name_plural = _("events of durable handlers")
        ordering = ["-id"]
        permissions = [("emit_durableevent", _("Can emit events of durable handlers"))]
        constraints = [models.UniqueConstraint(fields=["name", "key"], name="django_mq_durableevent_name")]
        indexes = [models.Index(fields=["expires_at"], name="django_mq_durableevent_expires")]

    def __str__(self) -> str:
        return f"{self.name} {self.key}".strip()


class DurableStep(models.Model):
    """One thing that a durable handler has asked for, of a message that is not handled to the end."""

    class StepKindChoice(models.TextChoices):
        STEP = StepKind.STEP.value, _("step")
        SLEEP = StepKind.SLEEP.value, _("sleep")
        WAIT = StepKind.WAIT.value, _("wait")
        PATCH = StepKind.PATCH.value, _("patch")

    class StepStanding(models.TextChoices):
        OPEN = StepOutcome.OPEN.value, _("waits")
        DONE = StepOutcome.DONE.value, _("done")
        WOKEN = StepOutcome.WOKEN.value, _("ended early")
        TIMED_OUT = StepOutcome.TIMED_OUT.value, _("timed out")

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(_("message id"))
    #: The queue of the handler: one message may go to several queues.
    queue_name = models.CharField(_("queue"), max_length=200)
    #: How many were asked for before it.
    place = models.PositiveIntegerField(_("place"))
    kind = models.CharField(_("kind"), max_length=10, choices=StepKindChoice.choices)
    name = models.CharField(_("name"), max_length=NAME_LENGTH, blank=True)
    #: Of the event.
    key = models.CharField(_("key"), max_length=NAME_LENGTH, blank=True)
    number = models.PositiveIntegerField(_("number of this name"), default=0)
    outcome = models.CharField(_("state"), max_length=10, choices=StepStanding.choices)
    #: JSON.
    result = models.TextField(_("result"), default="null")
    until = UTCDateTimeField(_("until"), null=True, blank=True)
    #: The event for which the message waits.
    event = models.ForeignKey(
        DurableEvent, models.DO_NOTHING, null=True, blank=True, related_name="waits", db_constraint=False
    )
    recorded_at = UTCDateTimeField(_("recorded at"))
    #: How long the function of a step took.
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    attempt = models.PositiveIntegerField(_("attempt"), default=1)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_durablestep"
        verbose_name = _("step of a durable handler")
        verbose_name_plural = _("steps of durable handlers")
        ordering = ["place"]
        permissions = [("wake_durablestep", _("Can wake durable handlers that sleep"))]
        constraints = [
            models.UniqueConstraint(
                fields=["message_id", "queue_name", "place"], name="django_mq_durablestep_place"
            )
        ]
        indexes = [models.Index(fields=["recorded_at"], name="django_mq_durablestep_recorded")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.key}".strip()

    def as_record(self) -> Record:
        """Return what the rule of replay knows of it."""
        until = None if self.until is None else self.until.timestamp()
        of_run = StepKind(self.kind), self.name, self.key, self.number
        return Record(*of_run, StepOutcome(self.outcome), self.result, until)
