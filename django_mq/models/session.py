"""Worker sessions, their consumers, and the groups and slots that sessions own."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions import worker_mode as engine
from django_mq.engine.decisions.routing import SELECTOR_LENGTH
from django_mq.models.times import UTCDateTimeField


class WorkerSession(models.Model):
    """One worker process, alive as long as its deadline is renewed.

    Its id is the time when the session opened, in microseconds. An id is never used again.
    """

    class Kind(models.TextChoices):
        CELERY = "celery", _("Celery worker")
        NATIVE = "native", _("mq_worker")

    class Mode(models.TextChoices):
        WORK = engine.WorkerMode.WORK.value, _("work")
        QUIET = engine.WorkerMode.QUIET.value, _("be quiet")
        STOP = engine.WorkerMode.STOP.value, _("stop")

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(_("name"), max_length=255)
    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process id"))
    version = models.CharField(_("version"), max_length=40)
    queues = models.JSONField(_("queues"), default=list)
    credit = models.PositiveIntegerField(
        _("credit"), default=0, help_text=_("Most messages held at a time; 0 = no limit.")
    )
    held = models.PositiveIntegerField(_("held"), default=0, help_text=_("Messages held at the last heartbeat."))
    started_at = UTCDateTimeField(_("started at"))
    heartbeat_at = UTCDateTimeField(_("last heartbeat"))
    deadline = UTCDateTimeField(
        _("deadline"), help_text=_("The session is reaped if it passes without a heartbeat.")
    )

    guarded = models.BooleanField(
        _("guarded"),
        default=False,
        db_default=False,
        help_text=_("The database notices when the worker's connection ends."),
    )

    busy = models.PositiveIntegerField(
        _("busy"), null=True, blank=True, help_text=_("Messages being handled at the last heartbeat.")
    )
    slots = models.PositiveIntegerField(
        _("slots"), null=True, blank=True, help_text=_("Messages that it can handle at a time.")
    )
    memory_bytes = models.PositiveBigIntegerField(
        _("memory"),
        null=True,
        blank=True,
        help_text=_("Memory of the worker process; a pool's other processes are not counted."),
    )
    conduct = models.CharField(
        _("worker command"),
        max_length=10,
        choices=Mode.choices,
        default=Mode.WORK,
        db_default=Mode.WORK,
        help_text=_("The mode that an operator has set for this session."),
    )
    given_credit = models.PositiveIntegerField(
        _("credit given"),
        null=True,
        blank=True,
        help_text=_(
            "Credit that an operator has given to each consumer of the worker; empty = the consumers' own."
        ),
    )

    running = models.JSONField(
        _("what runs"),
        null=True,
        blank=True,
        help_text=_("Messages being handled at the last heartbeat, at most 100, those that run for longest."),
    )

    class Meta:
        permissions: ClassVar = [
            ("quiet_workersession", "Can tell a worker to claim no more, or to go on"),
            ("stop_workersession", "Can tell a worker to end"),
            ("limit_workersession", "Can change the credit of a worker"),
        ]
        db_table = "django_mq_workersession"
        verbose_name = _("worker session")
        verbose_name_plural = _("worker sessions")
        ordering = ["-id"]
        indexes = [models.Index("deadline", name="django_mq_session_deadline")]

    def __str__(self) -> str:
        return self.name


class Consumer(models.Model):
    """One subscription of a worker session to one queue, as of its last heartbeat."""

    class Status(models.TextChoices):
        INTERESTED = "interested", _("interested")
        NOTIFIED = "notified", _("notified")
        BUSY = "busy", _("out of credit")
        STOPPING = "stopping", _("stopping")
        #: The queue is, and the worker has given back what it had not begun of it.
        PAUSED = "paused", _("paused")
        #: The loop of the worker makes no turn.
        STILL = "still", _("stands still")

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(
        WorkerSession, verbose_name=_("worker session"), on_delete=models.CASCADE, related_name="consumers"
    )
    queue_name = models.CharField(_("queue"), max_length=200)
    handler = models.CharField(_("handler"), max_length=255, blank=True, default="")
    priority = models.IntegerField(_("consumer priority"), default=0)
    state = models.CharField(_("state"), max_length=20, choices=Status.choices, default=Status.INTERESTED)
    credit_limit = models.PositiveIntegerField(_("credit limit"), default=0)
    credit_used = models.PositiveIntegerField(_("credit used"), default=0)
    delivered = models.PositiveBigIntegerField(_("delivered"), default=0)
    selector = models.CharField(
        _("selector"),
        max_length=SELECTOR_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text=_("Which messages it wants; blank = all."),
    )

    class Meta:
        db_table = "django_mq_consumer"
        verbose_name = _("consumer")
        verbose_name_plural = _("consumers")
        ordering = ["queue_name", "id"]

    def __str__(self) -> str:
        return f"{self.queue_name} ({self.handler or self.session_id})"


class ClaimLock(models.Model):
    """The claim lock of a constrained queue: a process that claims from the queue locks this row.

    The lock is not the row of the queue, because publishers into a limited queue lock that row until
    their transactions end, and workers should not wait for publishers.
    """

    queue_id = models.BigIntegerField(_("queue"), primary_key=True)

    class Meta:
        db_table = "django_mq_turn"
        verbose_name = _("claim lock")
        verbose_name_plural = _("claim locks")

    def __str__(self) -> str:
        return str(self.queue_id)


class DeclinedMessage(models.Model):
    """A message that a session has declined: no claim of this session brings it again."""

    id = models.BigAutoField(primary_key=True)
    queue_id = models.BigIntegerField(_("queue"))
    message_id = models.BigIntegerField(_("message"))
    session_id = models.BigIntegerField(_("worker session"))
    declined_at = UTCDateTimeField(_("declined at"))

    class Meta:
        db_table = "django_mq_declined"
        verbose_name = _("declined message")
        verbose_name_plural = _("declined messages")
        indexes: ClassVar = [
            models.Index(fields=["queue_id", "message_id"], name="django_mq_declined_message"),
            models.Index(fields=["session_id"], name="django_mq_declined_session"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} ← {self.session_id}"


class StopRequest(models.Model):
    """A message that its session is asked to stop, in one claim of it."""

    id = models.BigAutoField(primary_key=True)
    session_id = models.BigIntegerField(_("worker session"))
    message_id = models.BigIntegerField(_("message"))
    claim = models.BigIntegerField(_("claim"))
    asked_at = UTCDateTimeField(_("asked at"))

    class Meta:
        db_table = "django_mq_stoprequest"
        verbose_name = _("request to stop")
        verbose_name_plural = _("requests to stop")
        indexes: ClassVar = [models.Index(fields=["session_id"], name="django_mq_stop_session")]

    def __str__(self) -> str:
        return f"{self.message_id} → {self.session_id}"


class Ownership(models.Model):
    """A group that belongs to a session while it lives; without a group key, a consumer slot."""

    id = models.BigAutoField(primary_key=True)
    queue_id = models.BigIntegerField(_("queue"))
    group_key = models.CharField(_("group key"), max_length=255, null=True, blank=True)  # noqa: DJ001 - null is a slot
    session_id = models.BigIntegerField(_("worker session"))

    class Meta:
        db_table = "django_mq_ownership"
        verbose_name = _("ownership")
        verbose_name_plural = _("ownerships")
        indexes: ClassVar = [
            models.Index(fields=["queue_id", "group_key"], name="django_mq_ownership_group"),
            models.Index(fields=["session_id"], name="django_mq_ownership_session"),
        ]

    def __str__(self) -> str:
        return f"{self.queue_id} {self.group_key or ''} → {self.session_id}"
