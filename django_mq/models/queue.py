"""Queues and the bindings that route messages into them."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class Queue(models.Model):
    """One durable queue: its order, its limits, and whether it is paused."""

    class Kind(models.TextChoices):
        PRIORITY = "priority", _("priority")
        FIFO = "fifo", _("first in, first out")
        LAST_VALUE = "last_value", _("last value of each key")

    class DueOrder(models.TextChoices):
        DUE_FIRST = "due_first", _("due messages first")
        KEEP_PLACE = "keep_place", _("keep place of arrival")

    class Overflow(models.TextChoices):
        REJECT = "reject", _("refuse the new message")
        RING = "ring", _("replace the oldest")
        DROP = "drop", _("drop the new message")
        FLOW = "flow", _("let the publisher wait")

    class Grouping(models.TextChoices):
        NONE = "none", _("none")
        ASSIGNED = "assigned", _("assigned to a worker")
        SHARED = "shared", _("shared by all workers")
        SOLE = "sole", _("all to one worker")

    name = models.CharField(_("name"), max_length=200, unique=True)
    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices, default=Kind.PRIORITY)
    levels = models.PositiveSmallIntegerField(
        _("levels"),
        default=10,
        validators=[MinValueValidator(1), MaxValueValidator(10)],
        help_text=_("Priority lists of a priority queue, 1 to 10."),
    )
    due_order = models.CharField(
        _("due order"), max_length=20, choices=DueOrder.choices, default=DueOrder.DUE_FIRST
    )
    last_value_key = models.CharField(
        _("key of last values"),
        max_length=255,
        blank=True,
        default="",
        db_default="",
        help_text=_("The header of which a last-value queue keeps one message per value."),
    )
    closed = models.BooleanField(_("closed"), default=False, help_text=_("A closed queue takes no more messages."))
    paused = models.BooleanField(_("paused"), default=False, help_text=_("A paused queue delivers nothing."))
    paused_reason = models.CharField(_("pause reason"), max_length=200, blank=True, default="")
    paused_until = UTCDateTimeField(_("paused until"), null=True, blank=True)
    max_attempts = models.PositiveIntegerField(
        _("maximum attempts"),
        default=10,
        help_text=_("Failed deliveries after which a message is dead-lettered; 0 = never."),
    )
    backoff_seconds = models.FloatField(_("backoff seconds"), default=1.0, validators=[MinValueValidator(0)])
    backoff_multiplier = models.FloatField(_("backoff multiplier"), default=2.0, validators=[MinValueValidator(1)])
    backoff_cap_seconds = models.FloatField(
        _("backoff cap seconds"), default=600.0, validators=[MinValueValidator(0)]
    )
    backoff_jitter = models.FloatField(
        _("backoff jitter"), default=0.1, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    dead_letter_queue = models.ForeignKey(
        "self",
        verbose_name=_("dead-letter queue"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="dead_letter_sources",
        help_text=_("Where dead letters go; without one they stay here as dead."),
    )
    max_messages = models.PositiveBigIntegerField(
        _("maximum messages"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Most messages held, whatever their state."),
    )
    max_bytes = models.PositiveBigIntegerField(
        _("maximum bytes"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Most bytes of bodies held, whatever the state of their messages."),
    )
    overflow = models.CharField(
        _("overflow"),
        max_length=10,
        choices=Overflow.choices,
        default="reject",
        db_default="reject",
        help_text=_("What becomes of a message too many."),
    )
    wait_seconds = models.FloatField(
        _("wait for room in seconds"),
        default=5.0,
        db_default=5.0,
        validators=[MinValueValidator(0)],
        help_text=_("How long a publisher waits, if it is let wait, before it is refused."),
    )
    # What is known of a limited queue's contents: at most so much. Consumers only take away, and
    # do not write here; publishers add, and count anew when it seems full or the figure is old.
    held_messages = models.PositiveBigIntegerField(_("held messages"), null=True, editable=False)
    held_bytes = models.PositiveBigIntegerField(_("held bytes"), null=True, editable=False)
    counted_at = UTCDateTimeField(_("counted at"), null=True, editable=False)
    dropped = models.PositiveBigIntegerField(_("dropped messages"), default=0, db_default=0, editable=False)
    dedup_count = models.PositiveIntegerField(
        _("duplicate ids"),
        default=20_000,
        db_default=20_000,
        help_text=_("How many duplicate ids are remembered at least; 0 = none."),
    )
    dedup_seconds = models.FloatField(
        _("duplicate ids in seconds"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_("How long a duplicate id is remembered at most."),
    )
    ttl_seconds = models.FloatField(
        _("time to live in seconds"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_("Given to messages published without one."),
    )
    min_ttl_seconds = models.FloatField(
        _("shortest time to live in seconds"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_("A shorter one is prolonged."),
    )
    max_ttl_seconds = models.FloatField(
        _("longest time to live in seconds"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_("A longer one, or none, is cut to this."),
    )
    expiry_queue = models.ForeignKey(
        "self",
        verbose_name=_("expiry queue"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="expiry_sources",
        help_text=_("Where expired messages go; without one they end in the history."),
    )
    # Who may claim. Each has a default in the database, for the version before that knows none of them.
    grouping = models.CharField(
        _("grouping"),
        # "grouping" and "groups" are words of MySQL's own.
        db_column="group_rule",
        max_length=10,
        choices=Grouping.choices,
        default=Grouping.NONE,
        db_default=Grouping.NONE,
        help_text=_("How messages with a group key are shared out; one of a group is delivered at a time."),
    )
    strict = models.BooleanField(
        _("strict order"),
        default=False,
        db_default=False,
        help_text=_("Claims are made one by one, and never past a message that cannot be had just then."),
    )
    max_in_flight = models.PositiveIntegerField(
        _("most in flight"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Most messages claimed at once, over all workers."),
    )
    max_consumers = models.PositiveIntegerField(
        _("most consumers"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Most workers that receive; the others stand by."),
    )
    exclusive = models.BooleanField(
        _("exclusive"),
        default=False,
        db_default=False,
        help_text=_("One worker receives as long as it lives; others are refused."),
    )
    history_days = models.FloatField(
        _("days of history"),
        default=7.0,
        validators=[MinValueValidator(0)],
        help_text=_("How long finished messages are remembered; 0 = not at all."),
    )
    history_body = models.BooleanField(_("keep bodies in history"), default=False)
    created_at = UTCDateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        db_table = "django_mq_queue"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        ordering = ["name"]
        permissions = [
            ("pause_queue", "Can pause and resume a queue"),
            ("purge_queue", "Can purge a queue"),
        ]

    def __str__(self) -> str:
        return self.name


class DuplicateId(models.Model):
    """A duplicate id that a queue remembers, and the message that used it."""

    # As with messages: no constraint whose trigger would lock the queue's row. Ids of a queue
    # that is gone are pruned.
    queue = models.ForeignKey(
        Queue,
        verbose_name=_("queue"),
        on_delete=models.CASCADE,
        related_name="duplicate_ids",
        db_constraint=False,
        db_index=False,
    )
    dedup_id = models.CharField(_("duplicate id"), max_length=255)
    message_id = models.UUIDField(_("message id"))
    published_at = UTCDateTimeField(_("published at"))

    class Meta:
        db_table = "django_mq_duplicateid"
        verbose_name = _("duplicate id")
        verbose_name_plural = _("duplicate ids")
        ordering = ["-published_at"]
        indexes = [models.Index(fields=["queue", "published_at"], name="django_mq_duplicateid_age")]
        constraints = [models.UniqueConstraint(fields=["queue", "dedup_id"], name="django_mq_duplicateid_once")]

    def __str__(self) -> str:
        return self.dedup_id


class Binding(models.Model):
    """Messages published to an exchange go to the queue when the pattern matches their routing key."""

    class ExchangeType(models.TextChoices):
        DIRECT = "direct", _("direct")
        TOPIC = "topic", _("topic")
        FANOUT = "fanout", _("fanout")

    exchange = models.CharField(_("exchange"), max_length=200)
    exchange_type = models.CharField(_("exchange type"), max_length=10, choices=ExchangeType.choices)
    pattern = models.CharField(
        _("pattern"), max_length=200, blank=True, default="", help_text=_("Ignored by a fanout exchange.")
    )
    queue = models.ForeignKey(Queue, verbose_name=_("queue"), on_delete=models.CASCADE, related_name="bindings")

    class Meta:
        db_table = "django_mq_binding"
        verbose_name = _("binding")
        verbose_name_plural = _("bindings")
        ordering = ["exchange", "pattern"]
        constraints = [
            models.UniqueConstraint(fields=["exchange", "pattern", "queue"], name="django_mq_binding_once"),
        ]

    def __str__(self) -> str:
        return f"{self.exchange} [{self.pattern}] → {self.queue_id}"
