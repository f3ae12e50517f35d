"""Periodic messages and their last runs."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DEFAULT_DB_ALIAS, models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.periodic import Missed, Overlap, changed_in
from django_mq.errors import ConfigurationError
from django_mq.formats import PLAIN
from django_mq.models.times import UTCDateTimeField
from django_mq.periodic.ticks import MOST_CHARACTERS, Schedule, schedule
from django_mq.periodic.values import DECLARED, TARGET_LENGTH, check, check_options, values_of
from django_mq.stores.clock import clock


class PeriodicMessage(models.Model):
    """A message that is published at each tick of a cron line or an interval."""

    class TargetKind(models.TextChoices):
        MESSAGE = "message", _("message of a queue")
        CELERY = "celery", _("Celery task")
        TASK = "task", _("Django task")

    class MissedRule(models.TextChoices):
        SKIP = Missed.SKIP.value, _("skip them")
        ONCE = Missed.ONCE.value, _("publish one message")
        ALL = Missed.ALL.value, _("publish each of them")

    class OverlapRule(models.TextChoices):
        SKIP = Overlap.SKIP.value, _("skip the tick")
        QUEUE = Overlap.QUEUE.value, _("publish it behind the run before")
        REPLACE = Overlap.REPLACE.value, _("cancel the run before")

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(_("name"), max_length=200, unique=True)
    cron = models.CharField(
        _("cron line"),
        max_length=MOST_CHARACTERS,
        blank=True,
        default="",
        help_text=_("Minute, hour, day of the month, month, day of the week; six fields begin with the second."),
    )
    every_seconds = models.FloatField(_("interval in seconds"), null=True, blank=True)
    tz = models.CharField(_("time zone"), max_length=64, default="UTC")
    kind = models.CharField(
        _("what is published"), max_length=10, choices=TargetKind.choices, default=TargetKind.MESSAGE
    )
    queue = models.CharField(
        _("queue"), max_length=200, blank=True, default="", help_text=_("Blank for the queue of the task.")
    )
    target = models.CharField(
        _("type or task"),
        max_length=TARGET_LENGTH,
        blank=True,
        default="",
        help_text=_("The type of the message, the name of the Celery task, or the path of the Django task."),
    )
    body = models.JSONField(_("body"), null=True, blank=True, default=None, encoder=DjangoJSONEncoder)
    args = models.JSONField(_("arguments"), blank=True, default=list, encoder=DjangoJSONEncoder)
    kwargs = models.JSONField(_("named arguments"), blank=True, default=dict, encoder=DjangoJSONEncoder)
    options = models.JSONField(
        _("options"),
        blank=True,
        default=dict,
        encoder=DjangoJSONEncoder,
        help_text=_("What else to publish it with, as {“priority”: 9}."),
    )
    missed = models.CharField(
        _("missed ticks"), max_length=10, choices=MissedRule.choices, default=MissedRule.ONCE
    )
    most_missed = models.PositiveIntegerField(_("missed ticks to publish at most"), default=100)
    overlap = models.CharField(
        _("while the run before lasts"), max_length=10, choices=OverlapRule.choices, default=OverlapRule.QUEUE
    )
    jitter_seconds = models.FloatField(_("jitter in seconds"), default=0)
    start_at = UTCDateTimeField(_("start"), null=True, blank=True)
    end_at = UTCDateTimeField(_("end"), null=True, blank=True)
    alert_seconds = models.FloatField(
        _("alert after seconds"),
        null=True,
        blank=True,
        help_text=_("A problem is shown when the last success is older."),
    )
    is_paused = models.BooleanField(_("paused"), default=False)
    paused_reason = models.CharField(_("reason of the pause"), max_length=255, blank=True, default="")
    #: Whether maintenance has paused it, because what it publishes does not exist.
    is_gone = models.BooleanField(_("cannot be published"), default=False)
    #: The first tick that is not decided; null if none will come.
    next_at = UTCDateTimeField(_("next tick to publish"), null=True, blank=True)
    #: When to decide on it.
    look_at = UTCDateTimeField(_("decided at"), null=True, blank=True)
    #: The newest success that had ended when a tick was decided; the runs may have a newer one.
    succeeded_at = UTCDateTimeField(_("last success"), null=True, blank=True)
    #: When celery beat has published it, too.
    dropped_at = UTCDateTimeField(_("last dropped"), null=True, blank=True)
    created_at = UTCDateTimeField(_("created"))
    #: Which declarations the row follows; blank for a row that an operator has made.
    source = models.CharField(_("declared by"), max_length=100, blank=True, default="")
    #: What the code declares.
    declared = models.JSONField(_("declared values"), null=True, blank=True, default=None)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_periodic"
        verbose_name = _("periodic message")
        verbose_name_plural = _("periodic messages")
        ordering = ["name"]
        permissions = [
            ("pause_periodicmessage", "Can pause and resume a periodic message"),
            ("run_periodicmessage", "Can run a periodic message now"),
        ]
        indexes = [models.Index("look_at", name="django_mq_periodic_look")]

    def __str__(self) -> str:
        return self.name

    @property
    def alias(self) -> str:
        """The database of the row."""
        return self._state.db or DEFAULT_DB_ALIAS

    @property
    def is_new(self) -> bool:
        return self._state.adding

    @property
    def schedule(self) -> Schedule:
        """The ticks. Raises WrongSchedule."""
        return schedule(
            cron=self.cron,
            every_seconds=self.every_seconds,
            tz=self.tz,
            start_at=self.start_at,
            end_at=self.end_at,
        )

    def clean(self) -> None:
        """Raise ValidationError for values that cannot be."""
        try:
            self.check_values()
        except ConfigurationError as error:
            raise ValidationError(str(error)) from error

    def check_values(self) -> None:
        """Raise WrongSchedule, or ConfigurationError, for values that cannot be."""
        values = {name: getattr(self, name) for name in DECLARED}
        check(self.name, values)
        check_options(self.name, values)

    @property
    def sentence(self) -> str:
        """When it is due, in words; the mistake for a row that another program has written."""
        try:
            return self.schedule.sentence()
        except ConfigurationError as error:
            return str(error)

    @property
    def values(self) -> dict[str, Any]:
        """What code may declare, as JSON has it."""
        return values_of({name: getattr(self, name) for name in DECLARED})

    @property
    def changes(self) -> list[str]:
        """The fields that an operator has changed."""
        return changed_in(self.values, self.declared or {})


class PeriodicRun(models.Model):
    """A tick that was published, or left out."""

    class TickOutcome(models.TextChoices):
        #: The message is in its queue, or a worker has it.
        PENDING = "", _("not ended")
        SUCCEEDED = "succeeded", _("succeeded")
        DEAD = "dead", _("failed")
        REMOVED = "removed", _("removed")
        EXPIRED = "expired", _("expired")
        SKIPPED = "skipped", _("skipped: the run before lasted")
        MISSED = "missed", _("missed: no worker was there")
        DISCARDED = "discarded", _("discarded by a limit of the queue, or by a unique key")
        DROPPED = "dropped", _("dropped: celery beat had published it, too")

    id = models.BigAutoField(primary_key=True)
    periodic = models.ForeignKey(
        PeriodicMessage, models.CASCADE, related_name="runs", verbose_name=_("periodic message")
    )
    due_at = UTCDateTimeField(_("tick"))
    #: Null for a tick that was left out.
    message_id = models.UUIDField(_("message id"), null=True, blank=True)
    queue_name = models.CharField(_("queue"), max_length=200, blank=True, default="")
    by_hand = models.BooleanField(_("run by hand"), default=False)
    outcome = models.CharField(
        _("outcome"), max_length=10, choices=TickOutcome.choices, blank=True, default=TickOutcome.PENDING
    )
    ended_at = UTCDateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_periodicrun"
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["periodic", "due_at", "by_hand"], name="django_mq_periodicrun_once")
        ]
        indexes = [
            models.Index("message_id", name="django_mq_periodicrun_message"),
            models.Index("periodic", "outcome", "ended_at", name="django_mq_periodicrun_last"),
        ]

    def __str__(self) -> str:
        return f"{self.periodic_id} {PLAIN.time(self.due_at)}"


def with_last_run(rows: models.QuerySet[PeriodicMessage]) -> models.QuerySet[PeriodicMessage]:
    """Return the rows, each with the tick and the outcome of its last run: ``last_due_at``, ``last_outcome``.

    Ticks that are published ahead are left out.
    """
    last = PeriodicRun.objects.filter(periodic=models.OuterRef("pk"), due_at__lte=clock.now()).order_by("-due_at")
    return rows.annotate(
        last_due_at=models.Subquery(last.values("due_at")[:1]),
        last_outcome=models.Subquery(last.values("outcome")[:1]),
    )


class PeriodicRelease(models.Model):
    """Declarations of code that have begun: a worker whose declarations have an earlier row is an old one."""

    id = models.BigAutoField(primary_key=True)
    source = models.CharField(_("declared by"), max_length=100)
    digest = models.CharField(_("digest"), max_length=64)
    began_at = UTCDateTimeField(_("began"))

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_periodicrelease"
        verbose_name = _("release of declarations")
        verbose_name_plural = _("releases of declarations")
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["source", "digest"], name="django_mq_periodicrelease_once")]

    def __str__(self) -> str:
        return f"{self.source} {self.digest[:8]}"
