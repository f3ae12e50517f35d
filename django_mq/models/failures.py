"""Failures in groups: what failed attempts have in common, how often they occur, and which deploy they follow."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class FailureGroup(models.Model):
    """Failed attempts that are alike: of one exception, at one place, with one text but for its values.

    It is kept for 30 days after its last failure, as attempts are.
    """

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.CharField(_("fingerprint"), max_length=32, unique=True)
    error = models.CharField(_("exception"), max_length=255)
    error_path = models.CharField(_("class of the exception"), max_length=255, default="", blank=True)
    place = models.CharField(_("place"), max_length=255, default="", blank=True)
    text = models.CharField(_("text"), max_length=300, default="", blank=True)
    failures = models.PositiveBigIntegerField(_("failures"), default=0)
    first_at = UTCDateTimeField(_("first seen"))
    last_at = UTCDateTimeField(_("last seen"))
    #: How often each name occurs, of the most frequent ones.
    queues = models.JSONField(_("queues"), default=dict)
    types = models.JSONField(_("types"), default=dict)
    workers = models.JSONField(_("workers"), default=dict)

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
