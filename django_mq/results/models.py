"""The tables of results."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField
from django_mq.results.places import NO_POSITION

#: Longest id of a task, a group or a chord, and longest state.
ID_LENGTH, STATUS_LENGTH = 255, 50


class StoredResult(models.Model):
    """The state of a Celery task, and its result. What Celery's serialiser has written is text here."""

    id = models.BigAutoField(primary_key=True)
    task_id = models.CharField(_("task id"), max_length=ID_LENGTH, unique=True)
    #: The last message of the task that stored something; null for tasks of other brokers.
    message_id = models.UUIDField(_("message id"), null=True, blank=True)
    status = models.CharField(_("state"), max_length=STATUS_LENGTH)
    result = models.TextField(_("result"), blank=True, default="")
    content_type = models.CharField(_("content type"), max_length=100)
    content_encoding = models.CharField(_("content encoding"), max_length=100)
    traceback = models.TextField(_("traceback"), null=True, blank=True)  # noqa: DJ001 - Celery tells none from a blank one
    children = models.TextField(_("children"), blank=True, default="")
    group_id = models.CharField(_("group"), max_length=ID_LENGTH, blank=True, default="")
    parent_id = models.CharField(_("parent"), max_length=ID_LENGTH, blank=True, default="")
    #: With ``result_extended``; the arguments and the stamps as the serialiser has written them.
    name = models.CharField(_("task"), max_length=ID_LENGTH, blank=True, default="")
    args = models.TextField(_("arguments"), blank=True, default="")
    kwargs = models.TextField(_("named arguments"), blank=True, default="")
    worker = models.CharField(_("worker"), max_length=ID_LENGTH, blank=True, default="")
    queue = models.CharField(_("queue"), max_length=ID_LENGTH, blank=True, default="")
    retries = models.PositiveIntegerField(_("retries"), null=True, blank=True)
    stamps = models.TextField(_("stamps"), blank=True, default="")
    #: When the task ended; null before.
    done_at = UTCDateTimeField(_("done"), null=True, blank=True)
    expires_at = UTCDateTimeField(_("expires"), null=True, blank=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_result"
        verbose_name = _("result")
        verbose_name_plural = _("results")
        ordering = ["-id"]
        permissions: ClassVar = [("forget_storedresult", "Can forget results")]
        indexes = [models.Index(fields=["expires_at"], name="django_mq_result_expires")]

    def __str__(self) -> str:
        return f"{self.task_id} {self.status}"


class ResultGroup(models.Model):
    """The ids of a group's results, as ``GroupResult.save`` stores them."""

    group_id = models.CharField(_("group"), max_length=ID_LENGTH, primary_key=True)
    members = models.TextField(_("members"))
    content_type = models.CharField(_("content type"), max_length=100)
    content_encoding = models.CharField(_("content encoding"), max_length=100)
    expires_at = UTCDateTimeField(_("expires"), null=True, blank=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_resultgroup"
        verbose_name = _("group of results")
        verbose_name_plural = _("groups of results")
        indexes = [models.Index(fields=["expires_at"], name="django_mq_resultgroup_expires")]

    def __str__(self) -> str:
        return str(self.group_id)


class Chord(models.Model):
    """How many members of a chord have ended."""

    group_id = models.CharField(_("group"), max_length=ID_LENGTH, primary_key=True)
    #: The members that the publisher has announced; null before it did.
    size = models.PositiveIntegerField(_("members"), null=True, blank=True)
    #: The members that were added by others.
    added = models.PositiveIntegerField(_("added"), default=0)
    counted = models.PositiveIntegerField(_("ended"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)
    #: When the end was decided, and until when a process carries it out; null: it is done, or in this transaction.
    ended_at = UTCDateTimeField(_("ended at"), null=True, blank=True)
    carried_until = UTCDateTimeField(null=True, blank=True, editable=False)
    #: The body's signature, as Celery's serialiser has written it; blank after the end.
    body = models.TextField(_("body"), blank=True, default="")
    expires_at = UTCDateTimeField(_("expires"), null=True, blank=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_chord"
        verbose_name = _("chord")
        verbose_name_plural = _("chords")
        indexes = [
            models.Index(fields=["expires_at"], name="django_mq_chord_expires"),
            models.Index(fields=["carried_until"], name="django_mq_chord_carried"),
        ]

    def __str__(self) -> str:
        return str(self.group_id)


class ChordMember(models.Model):
    """A member of a chord that has ended, with its result, until the chord ends."""

    id = models.BigAutoField(primary_key=True)
    group_id = models.CharField(max_length=ID_LENGTH)
    task_id = models.CharField(max_length=ID_LENGTH)
    #: Its place among the members.
    position = models.IntegerField(default=NO_POSITION)
    status = models.CharField(max_length=STATUS_LENGTH)
    result = models.TextField(blank=True, default="")
    content_type = models.CharField(max_length=100)
    content_encoding = models.CharField(max_length=100)
    expires_at = UTCDateTimeField(null=True, blank=True)

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_chordmember"
        constraints = [
            models.UniqueConstraint(fields=["group_id", "position", "task_id"], name="django_mq_chordmember_once")
        ]
        indexes = [models.Index(fields=["expires_at"], name="django_mq_chordmember_expires")]

    def __str__(self) -> str:
        return str(self.task_id)


class ChordRoster(models.Model):
    """Members of a chord that goes on, as they were published, to find those whose worker is gone.

    Most chords have one row. A member that is added or that replaces itself later has a row of its own.
    """

    id = models.BigAutoField(primary_key=True)
    group_id = models.CharField(max_length=ID_LENGTH)
    #: As ``rosters.py`` writes them, in JSON.
    members = models.TextField()
    #: Since when members seem to be lost: the times by task id, in JSON.
    suspects = models.TextField(blank=True, default="")
    looked_at = UTCDateTimeField()

    class Meta:
        app_label = "django_mq"
        db_table = "django_mq_chordroster"
        indexes = [
            models.Index(fields=["group_id"], name="django_mq_chordroster_group"),
            models.Index(fields=["looked_at"], name="django_mq_chordroster_looked"),
        ]

    def __str__(self) -> str:
        return str(self.group_id)
