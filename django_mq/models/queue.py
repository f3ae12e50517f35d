"""Queues and the bindings that route messages into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from django_mq.engine.decisions.dead_letters import DEFAULT_EXCHANGE
from django_mq.engine.decisions.routing import SELECTOR_LENGTH
from django_mq.engine.options import LINKS, OPTIONS, OTHERS, QueueOptions, added_in, others_in
from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.engine.options import Option


def _of(name: str) -> dict[str, Any]:
    """Return the arguments of a field from the option: its texts, default, choices, length and bounds."""
    option = OPTIONS[name]
    said: dict[str, Any] = {"verbose_name": _(option.label), "help_text": _(option.help)}
    if option.choices:
        said["choices"] = [(value, _(label)) for value, label in option.choices.items()]
    if not option.optional:
        said["default"] = option.default
    if option.length:
        said["max_length"] = option.length
    if option.base_type in {"int", "float"}:
        said["validators"] = [MinValueValidator(option.least), MaxValueValidator(option.most)]
    return said


class Queue(models.Model):
    """One durable queue: its options, as ``engine/options.py`` declares them, and whether it is paused.

    A column that was added later has a default in the database, for the previous version, which does not know it.
    """

    name = models.CharField(_("name"), max_length=200, unique=True)
    kind = models.CharField(max_length=20, **_of("kind"))
    levels = models.PositiveSmallIntegerField(**_of("levels"))
    due_order = models.CharField(max_length=20, **_of("due_order"))
    last_value_key = models.CharField(blank=True, db_default="", **_of("last_value_key"))
    sort_key = models.CharField(blank=True, db_default="", **_of("sort_key"))
    fair_by = models.CharField(blank=True, db_default="", **_of("fair_by"))
    closed = models.BooleanField(_("closed"), default=False, help_text=_("A closed queue takes no more messages."))
    paused = models.BooleanField(_("paused"), default=False, help_text=_("A paused queue delivers nothing."))
    paused_reason = models.CharField(_("pause reason"), max_length=200, blank=True, default="")
    paused_until = UTCDateTimeField(_("paused until"), null=True, blank=True)
    max_attempts = models.PositiveIntegerField(**_of("max_attempts"))
    backoff_seconds = models.FloatField(**_of("backoff_seconds"))
    backoff_multiplier = models.FloatField(**_of("backoff_multiplier"))
    backoff_cap_seconds = models.FloatField(**_of("backoff_cap_seconds"))
    backoff_jitter = models.FloatField(**_of("backoff_jitter"))
    dead_letter_queue = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="dead_letter_sources",
        **_of("dead_letter_queue"),
    )
    dead_letter_exchange = models.CharField(blank=True, db_default="", **_of("dead_letter_exchange"))
    dead_letter_routing_key = models.CharField(blank=True, db_default="", **_of("dead_letter_routing_key"))
    max_messages = models.PositiveBigIntegerField(null=True, blank=True, **_of("max_messages"))
    max_bytes = models.PositiveBigIntegerField(null=True, blank=True, **_of("max_bytes"))
    overflow = models.CharField(max_length=10, db_default="reject", **_of("overflow"))
    wait_seconds = models.FloatField(db_default=5.0, **_of("wait_seconds"))
    # Upper bounds of what a limited queue holds. Consumers do not write here; publishers add, and count
    # anew when the queue seems full or the figure is old.
    held_messages = models.PositiveBigIntegerField(_("held messages"), null=True, editable=False)
    held_bytes = models.PositiveBigIntegerField(_("held bytes"), null=True, editable=False)
    counted_at = UTCDateTimeField(_("counted at"), null=True, editable=False)
    dropped = models.PositiveBigIntegerField(_("dropped messages"), default=0, db_default=0, editable=False)
    dedup_count = models.PositiveIntegerField(db_default=20_000, **_of("dedup_count"))
    dedup_seconds = models.FloatField(null=True, blank=True, **_of("dedup_seconds"))
    ttl_seconds = models.FloatField(null=True, blank=True, **_of("ttl_seconds"))
    min_ttl_seconds = models.FloatField(null=True, blank=True, **_of("min_ttl_seconds"))
    max_ttl_seconds = models.FloatField(null=True, blank=True, **_of("max_ttl_seconds"))
    no_expiry = models.BooleanField(db_default=False, **_of("no_expiry"))
    expiry_queue = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="expiry_sources",
        **_of("expiry_queue"),
    )
    grouping = models.CharField(
        max_length=10, db_column=OPTIONS["grouping"].column, db_default="none", **_of("grouping")
    )
    strict = models.BooleanField(db_default=False, **_of("strict"))
    max_in_flight = models.PositiveIntegerField(null=True, blank=True, **_of("max_in_flight"))
    max_consumers = models.PositiveIntegerField(null=True, blank=True, **_of("max_consumers"))
    exclusive = models.BooleanField(db_default=False, **_of("exclusive"))
    selectors = models.CharField(blank=True, db_default="", **_of("selectors"))
    # The list of selectors that messages are asked by, as a number, and whether all messages have been asked.
    declared = models.BigIntegerField(null=True, editable=False)
    covered = models.BooleanField(default=False, db_default=False, editable=False)
    auto_delete = models.BooleanField(db_default=False, **_of("auto_delete"))
    expires_seconds = models.FloatField(null=True, blank=True, **_of("expires_seconds"))
    # Written for queues that may be deleted without an operator, and for no others.
    used_at = UTCDateTimeField(_("used at"), null=True, editable=False)
    history_days = models.FloatField(**_of("history_days"))
    history_body = models.BooleanField(**_of("history_body"))
    #: Options without a column that are not the default; read and set as attributes.
    other_options = models.JSONField(_("other options"), null=True, blank=True, editable=False)
    created_at = UTCDateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        db_table = "django_mq_queue"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        ordering = ["name"]
        permissions = [
            ("pause_queue", "Can pause and resume a queue"),
            ("purge_queue", "Can purge a queue"),
            ("free_groups_queue", "Can free the groups of a queue from their workers"),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """Save the queue; ``update_fields`` may name options that have no column."""
        if update_fields is not None:
            columns = {column.name for column in self._meta.concrete_fields}
            update_fields = {name if name in columns else "other_options" for name in update_fields}
        super().save(*args, update_fields=update_fields, **kwargs)

    @property
    def added(self) -> dict[str, Any]:
        """The values of options that extensions declare."""
        return added_in(self.other_options)

    @property
    def options(self) -> QueueOptions:
        """The options as one value."""
        values = {name: getattr(self, name) for name in OPTIONS}
        links = {name: values[name] and values[name].name for name in LINKS}
        return QueueOptions(**values | links, added=self.added)

    def value_of(self, option: str) -> Any:
        """Return the value of an option by its name; of a link, the name of the queue."""
        value = getattr(self, option)
        return value and value.name if option in LINKS else value


def _attribute(option: Option) -> property:
    """Return an attribute that reads and sets an option without a column."""

    def read(queue: Queue) -> Any:
        return others_in(queue.other_options, [option]).get(option.name, option.default)

    def write(queue: Queue, value: Any) -> None:
        stored = queue.other_options if isinstance(queue.other_options, dict) else {}
        kept = {name: stored[name] for name in stored if name != option.name}
        queue.other_options = kept if value == option.default else {**kept, option.name: value}

    read.short_description = _(option.label)  # type: ignore[attr-defined] # the admin's label of a read-only field
    return property(read, write, doc=option.help)


def add_options(options: Iterable[Option]) -> None:
    """Give queues an attribute for each of these options, which have no column."""
    for option in options:
        setattr(Queue, option.name, _attribute(option))


add_options(OPTIONS[name] for name in OTHERS)


class DuplicateId(models.Model):
    """A duplicate id that a queue remembers, and the message that used it."""

    # No constraint, as in ``Message.queue``. Maintenance deletes the ids of deleted queues.
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


class Exchange(models.Model):
    """A declared exchange. The previous version wrote none; the type of such an exchange is in its bindings."""

    name = models.CharField(max_length=200, unique=True)
    exchange_type = models.CharField(max_length=10)
    alternate = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        db_table = "django_mq_exchange"

    def __str__(self) -> str:
        return self.name


class ExchangeBinding(models.Model):
    """Messages published to an exchange also go to the destination, if pattern and selector match them."""

    exchange = models.CharField(max_length=200)
    pattern = models.CharField(max_length=200, blank=True, default="")
    selector = models.CharField(max_length=SELECTOR_LENGTH, blank=True, default="")
    destination = models.CharField(max_length=200)

    class Meta:
        db_table = "django_mq_exchangebinding"
        constraints = [
            models.UniqueConstraint(
                fields=["exchange", "pattern", "destination"], name="django_mq_exchangebinding_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.exchange} [{self.pattern}] → {self.destination}"


class Binding(models.Model):
    """Messages published to an exchange go to the queue if pattern and selector match them."""

    class ExchangeType(models.TextChoices):
        DIRECT = "direct", _("direct")
        TOPIC = "topic", _("topic")
        FANOUT = "fanout", _("fanout")
        HEADERS = "headers", _("headers")

    exchange = models.CharField(_("exchange"), max_length=200)
    exchange_type = models.CharField(_("exchange type"), max_length=10, choices=ExchangeType.choices)
    pattern = models.CharField(
        _("pattern"),
        max_length=200,
        blank=True,
        default="",
        help_text=_("Ignored by a fanout or headers exchange."),
    )
    selector = models.CharField(
        _("selector"),
        max_length=SELECTOR_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text=_("Which messages, for example region = 'eu' AND size < 10. Blank for all."),
    )
    queue = models.ForeignKey(Queue, verbose_name=_("queue"), on_delete=models.CASCADE, related_name="bindings")

    class Meta:
        db_table = "django_mq_binding"
        verbose_name = _("binding")
        verbose_name_plural = _("bindings")
        ordering = ["exchange", "pattern"]
        constraints = [
            models.UniqueConstraint(fields=["exchange", "pattern", "queue"], name="django_mq_binding_once")
        ]

    def __str__(self) -> str:
        return f"{self.exchange} [{self.pattern}] → {self.queue_id}"


def takes_dead_letters() -> Q:
    """Return the condition that a queue gets dead or expired messages of others, by its name or by a binding."""
    # Sets that are read once: a look at all queues for each queue would be one for each pair of queues.
    every = Queue.objects.order_by()
    dead = every.filter(dead_letter_queue__isnull=False).values("dead_letter_queue")
    expired = every.filter(expiry_queue__isnull=False).values("expiry_queue")
    exchanges = every.exclude(dead_letter_exchange="").values("dead_letter_exchange")
    bound = Binding.objects.order_by().filter(exchange__in=exchanges).values("queue")
    # Bindings without a row: to the default exchange, and to an exchange of the queue's own name.
    by_name = Q(dead_letter_exchange=DEFAULT_EXCHANGE) | Q(dead_letter_exchange=F("dead_letter_routing_key"))
    named = every.filter(by_name).values("dead_letter_routing_key")
    return Q(pk__in=dead) | Q(pk__in=expired) | Q(pk__in=bound) | Q(name__in=named)


class FairCounter(models.Model):
    """How far a key of a fair queue has come in a level, or the level itself, for one publisher at a time."""

    # No constraint, as in ``Message.queue``.
    queue = models.ForeignKey(
        Queue,
        verbose_name=_("queue"),
        on_delete=models.CASCADE,
        related_name="fair_counters",
        db_constraint=False,
        db_index=False,
    )
    id = models.BigAutoField(primary_key=True)
    level = models.PositiveSmallIntegerField()
    #: Blank for the level.
    fair_key = models.CharField(max_length=32, blank=True)
    # No index has these: so PostgreSQL writes a changed row beside the old one, and indexes do not grow.
    finish = models.BigIntegerField()
    #: Of a level, the present place that the last publisher has seen.
    seen = models.BigIntegerField()

    class Meta:
        db_table = "django_mq_faircounter"
        indexes = [
            models.Index(fields=["queue", "level", "fair_key", "id"], name="django_mq_fair_key"),
        ]

    def __str__(self) -> str:
        return self.fair_key
