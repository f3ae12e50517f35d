"""Live messages, and transient queues.

The message table is the busiest one. Transient queues are for remote control, replies and events: non-durable,
short-lived and frequent messages, which never use the message table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models
from django.db.models import F, Func, JSONField, Q
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import HasKey
from django.utils.translation import gettext_lazy as _

from django_mq.engine.states import State, is_dead_letter, is_retrying
from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.sql.compiler import SQLCompiler


class Message(models.Model):
    """A live message. ``id`` is its arrival number; finished messages live in ``History``.

    Order in a queue: level descending, place ascending, id ascending. ``place`` is 0 for
    an ordinary message and negative, ascending by due time, for a message that becomes
    due in a ``due_first`` queue; it never changes while the message is in the queue. A
    message of a fair queue gets a negative place as soon as it is ready.
    """

    class Status(models.IntegerChoices):
        SCHEDULED = State.SCHEDULED.value, _("scheduled")
        READY = State.READY.value, _("ready")
        CLAIMED = State.CLAIMED.value, _("claimed")
        DEAD = State.DEAD.value, _("dead")
        PARKED = State.PARKED.value, _("parked")

    id = models.BigAutoField(primary_key=True)
    # No database constraint: its trigger would lock the queue's row for every
    # published message. The insert reads the queue's row in the same statement.
    queue = models.ForeignKey(
        "django_mq.Queue",
        verbose_name=_("queue"),
        on_delete=models.PROTECT,
        related_name="messages",
        db_constraint=False,
        db_index=False,
    )
    state = models.PositiveSmallIntegerField(_("state"), choices=Status.choices)
    level = models.PositiveSmallIntegerField(_("level"))
    place = models.BigIntegerField(_("place"), default=0)
    priority = models.PositiveSmallIntegerField(_("priority"))
    attempts = models.PositiveIntegerField(
        _("failed attempts"),
        default=0,
        help_text=_("Deliveries that failed, or were cut short by the worker's death."),
    )
    redelivered = models.BooleanField(_("redelivered"), default=False)
    suspect = models.BooleanField(
        _("suspect"), default=False, help_text=_("Was held by a worker that died; it is delivered alone.")
    )
    message_id = models.UUIDField(_("message id"))
    type = models.CharField(_("type"), max_length=255, default="", blank=True)
    correlation_id = models.CharField(_("correlation id"), max_length=255, null=True, blank=True)  # noqa: DJ001 - null keeps the row out of the partial index
    group_key = models.CharField(_("group key"), max_length=255, null=True, blank=True)  # noqa: DJ001 - as above
    value_key = models.CharField(  # noqa: DJ001 - as above
        _("value key"),
        max_length=255,
        null=True,
        blank=True,
        help_text=_("The key of its value in a last-value queue."),
    )
    # Which declared selector of its queue matches the message; null where the queue declares none.
    meets = models.BigIntegerField(null=True, editable=False)
    # The listenings of extensions that are told its ends.
    told_to = models.CharField(max_length=255, null=True, editable=False)  # noqa: DJ001 - null for nearly all rows
    park_key = models.CharField(  # noqa: DJ001 - as above
        _("parked for"),
        max_length=255,
        null=True,
        blank=True,
        help_text=_("The key that lets a parked message go on when it is freed."),
    )
    parked_until = UTCDateTimeField(_("parked until"), null=True, blank=True)
    published_at = UTCDateTimeField(_("published at"))
    deliver_at = UTCDateTimeField(_("deliver at"), null=True, blank=True)
    expires_at = UTCDateTimeField(_("expires at"), null=True, blank=True)
    session = models.ForeignKey(
        "django_mq.WorkerSession",
        verbose_name=_("worker session"),
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        related_name="messages",
        db_constraint=False,
        db_index=False,
    )
    claim = models.BigIntegerField(_("claim token"), null=True, blank=True)
    claimed_at = UTCDateTimeField(_("claimed at"), null=True, blank=True)
    # When it last came back: from a worker, from the dead letters, or from another queue.
    released_at = UTCDateTimeField(null=True, editable=False)
    dead_reason = models.CharField(_("reason"), max_length=255, blank=True, default="")
    dead_at = UTCDateTimeField(_("dead since"), null=True, blank=True)
    content_type = models.CharField(_("content type"), max_length=100)
    content_encoding = models.CharField(_("content encoding"), max_length=40, default="utf-8")
    headers = models.JSONField(_("headers"), default=dict)
    properties = models.JSONField(_("properties"), null=True, blank=True)
    body = models.BinaryField(_("body"))

    class Meta:
        db_table = "django_mq_message"
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["-id"]
        permissions: ClassVar = [
            ("release_message", "Can release a claimed message"),
            ("move_message", "Can move a message to another queue"),
            ("cancel_message", "Can cancel a message"),
            ("stop_message", "Can stop a message that a worker handles"),
            ("deliver_message_now", "Can deliver a scheduled message now"),
            ("reschedule_message", "Can give a message another time to be delivered"),
            ("prioritise_message", "Can change the priority of a message"),
            ("redrive_message", "Can redrive a dead letter"),
        ]
        indexes = [
            # The claim reads this one only: scheduled, claimed and dead rows are not in it.
            models.Index(
                "queue",
                models.F("level").desc(),
                "place",
                "id",
                name="django_mq_message_ready",
                condition=Q(state=1),
            ),
            # The same for each of the selectors that a queue declares.
            models.Index(
                "queue",
                "meets",
                models.F("level").desc(),
                "place",
                "id",
                name="django_mq_message_meets",
                condition=Q(state=1, meets__isnull=False),
            ),
            models.Index("queue", "deliver_at", name="django_mq_message_due", condition=Q(state=0)),
            models.Index("queue", "session", name="django_mq_message_claimed", condition=Q(state=2)),
            models.Index("queue", "id", name="django_mq_message_dead", condition=Q(state=3)),
            models.Index(
                "expires_at", name="django_mq_message_expiring", condition=Q(expires_at__isnull=False, state__lt=2)
            ),
            # Parked messages by their keys, by their times, and those that expire. No other row is in these.
            models.Index(
                "queue",
                "park_key",
                models.F("level").desc(),
                "place",
                "id",
                name="django_mq_message_parked",
                condition=Q(state=7),
            ),
            models.Index(
                "queue",
                "parked_until",
                name="django_mq_message_waking",
                condition=Q(state=7, parked_until__isnull=False),
            ),
            models.Index(
                "expires_at", name="django_mq_message_ending", condition=Q(state=7, expires_at__isnull=False)
            ),
            # Messages that wait for their next attempt, and for which the rest of their group waits.
            models.Index(
                "queue",
                "group_key",
                name="django_mq_message_retrying",
                condition=Q(state=0, redelivered=True, group_key__isnull=False),
            ),
            models.Index(
                "correlation_id", name="django_mq_message_corr", condition=Q(correlation_id__isnull=False)
            ),
            models.Index(
                fields=["queue", "value_key"], name="django_mq_message_value", condition=Q(value_key__isnull=False)
            ),
        ]
        constraints = [models.UniqueConstraint("message_id", "queue", name="django_mq_message_once")]

    def __str__(self) -> str:
        return str(self.message_id)

    @property
    def is_dead_letter(self) -> bool:
        return is_dead_letter(self.state, self.dead_reason)

    @property
    def is_retrying(self) -> bool:
        return is_retrying(self.state, self.attempts)


def in_state(state: State | Message.Status) -> Q:
    """Return the condition with the state in the statement: SQLite reads each row of a partial index otherwise."""
    return Q(state=RawSQL(str(state.value), ()))  # noqa: S611 - our own number


def dead_letters() -> Q:
    """Return the condition that a message is a dead letter, as ``is_dead_letter`` of the engine says."""
    return in_state(State.DEAD) | (in_state(State.READY) & ~Q(dead_reason=""))


class ReadableHeaders(Func):
    """The headers of a row, or none where they are no JSON, at which SQLite would fail the whole statement."""

    template = "CASE WHEN JSON_VALID(%(expressions)s) THEN %(expressions)s ELSE '{}' END"
    output_field = JSONField()

    def __init__(self, *expressions: Any, **extra: Any) -> None:
        super().__init__(*expressions or ("headers",), **extra)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:
        """Skip the check, because PostgreSQL stores nothing but JSON."""
        return super().as_sql(compiler, connection, template="%(expressions)s")


def having(header: str) -> HasKey:
    """Return the condition that a message has a header of this name."""
    return HasKey(ReadableHeaders(F("headers")), header)


class VolatileBinding(models.Model):
    """A volatile queue's binding to an exchange; deleted when its owner stops renewing it."""

    id = models.BigAutoField(primary_key=True)
    exchange = models.CharField(max_length=200)
    exchange_type = models.CharField(max_length=10)
    pattern = models.CharField(max_length=200, default="", blank=True)
    queue_name = models.CharField(max_length=255)
    expires_at = UTCDateTimeField()

    class Meta:
        db_table = "django_mq_volatilebinding"
        constraints = [
            models.UniqueConstraint(
                fields=["exchange", "pattern", "queue_name"], name="django_mq_volatilebinding_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.exchange} → {self.queue_name}"


class VolatileMessage(models.Model):
    """One message of a transient queue. Its reader deletes it; maintenance deletes old ones."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(max_length=255)
    payload = models.TextField()
    expires_at = UTCDateTimeField()

    class Meta:
        db_table = "django_mq_volatilemessage"
        indexes = [models.Index("queue_name", "id", name="django_mq_volatile_queue")]

    def __str__(self) -> str:
        return f"{self.queue_name} #{self.pk}"
