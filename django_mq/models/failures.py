"""Failures in groups: what failed attempts have in common, how often they occur, and which deploy they follow."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.staged_redrive import RedriveOutcome
from django_mq.models.times import UTCDateTimeField


class FailureGroup(models.Model):
    """Failed attempts that are alike: of one exception, at one place, with one text but for its values.

    It is kept for 30 days after its last failure, as attempts are.
    """

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.CharField(_("fingerprint"), max_length=32, unique=True)
    error = models.CharField(_("exception"), max_length=255)
    error_path = models.CharField(_("class of the exception"), max_length=255, default="", blank=True)
    place = models.CharField(_("raised in"), max_length=255, default="", blank=True)
    text = models.CharField(_("text"), max_length=300, default="", blank=True)
    failures = models.PositiveBigIntegerField(_("failures"), default=0)
    first_at = UTCDateTimeField(_("first seen"))
    last_at = UTCDateTimeField(_("last seen"))
    #: How often each name occurs, of the most frequent ones.
    queues = models.JSONField(_("queues"), default=dict)
    types = models.JSONField(_("types"), default=dict)
    workers = models.JSONField(_("workers"), default=dict)
    tenants = models.JSONField(_("tenants"), default=dict)
    versions = models.JSONField(_("versions"), default=dict)

    class Meta:
        db_table = "django_mq_failuregroup"
        verbose_name = _("failure group")
        verbose_name_plural = _("failures in groups")
        ordering = ["-last_at", "-id"]
        indexes = [models.Index("last_at", name="django_mq_failuregroup_last")]

    def __str__(self) -> str:
        return f"{self.error}: {self.text}" if self.text else self.error


class FailureTally(models.Model):
    """How many failures a group has had in ten minutes."""

    id = models.BigAutoField(primary_key=True)
    group = models.ForeignKey(FailureGroup, on_delete=models.CASCADE, related_name="tallies", db_index=False)
    begins_at = UTCDateTimeField(_("begin"))
    failures = models.PositiveIntegerField(_("failures"), default=0)

    class Meta:
        db_table = "django_mq_failuretally"
        verbose_name = _("ten minutes of a failure group")
        verbose_name_plural = _("ten minutes of failure groups")
        constraints = [models.UniqueConstraint(fields=["group", "begins_at"], name="django_mq_failuretally_once")]
        indexes = [models.Index("begins_at", name="django_mq_failuretally_prune")]

    def __str__(self) -> str:
        return f"{self.group_id} {self.begins_at:%Y-%m-%d %H:%M}"


class GroupedFailure(models.Model):
    """A failed attempt that has its group. Its key is that of the attempt, so that no attempt is counted twice."""

    attempt_id = models.BigIntegerField(_("failed attempt"), primary_key=True)
    group = models.ForeignKey(FailureGroup, on_delete=models.CASCADE, related_name="grouped", db_index=False)
    failed_at = UTCDateTimeField(_("failed at"))
    message_id = models.UUIDField(_("message id"), null=True)
    correlation_id = models.CharField(_("correlation id"), max_length=255, null=True)  # noqa: DJ001 - as the attempt has it

    class Meta:
        db_table = "django_mq_groupedfailure"
        verbose_name = _("failed attempt in a group")
        verbose_name_plural = _("failed attempts in groups")
        indexes = [models.Index("group", "attempt_id", name="django_mq_grouped_group")]

    def __str__(self) -> str:
        return f"{self.attempt_id} in {self.group_id}"


class Deploy(models.Model):
    """A version of the site, and when the first worker process with it began."""

    id = models.BigAutoField(primary_key=True)
    version = models.CharField(_("version"), max_length=100, unique=True)
    first_at = UTCDateTimeField(_("first seen"))

    class Meta:
        db_table = "django_mq_deploy"
        verbose_name = _("deploy")
        verbose_name_plural = _("deploys")
        ordering = ["-first_at", "-id"]

    def __str__(self) -> str:
        return self.version


class StagedRedrive(models.Model):
    """A redrive of the dead letters of a group in stages, which a duty of the maintenance steers."""

    class Status(models.TextChoices):
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")

    id = models.BigAutoField(primary_key=True)
    group = models.ForeignKey(
        FailureGroup,
        verbose_name=_("failure group"),
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="redrives",
    )
    first = models.PositiveIntegerField(
        _("first"), default=0, help_text=_("So many messages go first, and the rest when these have succeeded.")
    )
    per_minute = models.FloatField(_("most a minute"), null=True, blank=True)
    status = models.CharField(_("status"), max_length=10, choices=Status.choices, default=Status.RUNNING)
    #: The kind of the reason, which pages show in the language of the reader, and what the reason is about.
    reason = models.CharField(_("reason"), max_length=20, default="", blank=True)
    about = models.CharField(max_length=255, default="", blank=True, editable=False)
    #: Blank: it was begun by a command, which has no user of the site.
    user_name = models.CharField(_("started by"), max_length=255, default="", blank=True)
    sent = models.PositiveBigIntegerField(_("sent"), default=0)
    succeeded = models.PositiveBigIntegerField(_("succeeded"), default=0)
    failed = models.PositiveBigIntegerField(_("failed"), default=0)
    removed = models.PositiveBigIntegerField(_("removed"), default=0)
    stayed = models.PositiveBigIntegerField(
        _("stayed"), default=0, help_text=_("Their queue is unknown, closed or full, or has them already.")
    )
    #: The failures in spite of which an operator has told it to go on.
    forgiven = models.PositiveBigIntegerField(default=0, editable=False)
    #: The last message tried, the newest one when it began, and the last one whose outcome was looked for.
    cursor = models.BigIntegerField(default=0, editable=False)
    newest = models.BigIntegerField(editable=False)
    watched = models.BigIntegerField(default=0, editable=False)
    created_at = UTCDateTimeField(_("started"))
    #: Until when the rate is used up.
    paced_at = UTCDateTimeField(editable=False)
    beat_at = UTCDateTimeField(_("last look"))

    class Meta:
        db_table = "django_mq_stagedredrive"
        verbose_name = _("redrive in stages")
        verbose_name_plural = _("redrives in stages")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"#{self.pk}"

    @property
    def known(self) -> int:
        """How many outcomes are known."""
        return self.succeeded + self.failed + self.removed


class StagedMessage(models.Model):
    """A message that a redrive in stages has sent, and what has become of it."""

    id = models.BigAutoField(primary_key=True)
    redrive = models.ForeignKey(StagedRedrive, on_delete=models.CASCADE, related_name="messages", db_index=False)
    row_id = models.BigIntegerField()
    queue_name = models.CharField(max_length=200)
    message_id = models.UUIDField()
    correlation_id = models.CharField(max_length=255, null=True)  # noqa: DJ001 - as the message has it
    sent_at = UTCDateTimeField()
    #: Null: not known yet.
    outcome = models.PositiveSmallIntegerField(
        null=True, choices=[(one.value, one.name.lower()) for one in RedriveOutcome]
    )

    class Meta:
        db_table = "django_mq_stagedmessage"
        indexes = [
            models.Index("redrive", "outcome", "id", name="django_mq_staged_outcome"),
            models.Index("message_id", name="django_mq_staged_message"),
            models.Index("correlation_id", name="django_mq_staged_corr"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} of {self.redrive_id}"
