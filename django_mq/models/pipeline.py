"""The data pipeline's own rows: the archive's manifests, the ledger of bulk jobs, and insights."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mq.models.times import UTCDateTimeField


class ArchiveBatch(models.Model):
    """A batch of history that is written to the archive, and then the manifest of its files.

    A reader of the archive reads only directories named by a row: the others were left
    behind by an attempt that died.
    """

    class State(models.IntegerChoices):
        PLANNED = 0, _("planned")
        WRITTEN = 1, _("written")
        PURGED = 2, _("purged")
        REPLACED = 3, _("replaced")
        KEEPING = 4, _("keeping house")  # not a batch, but a lock against other writers

    id = models.BigAutoField(primary_key=True)
    state = models.PositiveSmallIntegerField(_("state"), choices=State.choices, default=State.PLANNED)
    # True or null. The index is unique but for nulls, so at most one batch is under way.
    active = models.BooleanField(_("under way"), null=True, blank=True, unique=True)
    first_id = models.BigIntegerField(_("first id"))
    last_id = models.BigIntegerField(_("last id"))
    cutoff = UTCDateTimeField(_("finished before"))
    root = models.CharField(_("root"), max_length=1000)
    path = models.CharField(_("directory"), max_length=1100, default="", blank=True)
    days = models.JSONField(
        _("days"), default=dict, blank=True, help_text=_("Rows and checksum of each day, in UTC.")
    )
    signed = models.JSONField(
        _("signed"),
        null=True,
        blank=True,
        help_text=_("Columns that the checksums cover; empty for older batches, which cover some."),
    )
    files = models.JSONField(
        _("files"), null=True, blank=True, help_text=_("The size of each file; empty for older batches.")
    )
    fault = models.TextField(
        _("fault"),
        default="",
        db_default="",
        blank=True,
        help_text=_("What mq_spark verify found, if it found damage."),
    )
    rows = models.BigIntegerField(_("rows"), default=0)
    purged_rows = models.BigIntegerField(_("rows deleted from the history"), default=0)
    attempt = models.UUIDField(_("attempt"), null=True, blank=True)
    holder = models.CharField(_("holder"), max_length=255, default="", blank=True)
    lease_until = UTCDateTimeField(_("lease until"), null=True, blank=True)
    planned_at = UTCDateTimeField(_("planned at"))
    written_at = UTCDateTimeField(_("written at"), null=True, blank=True)
    purged_at = UTCDateTimeField(_("purged at"), null=True, blank=True)

    class Meta:
        db_table = "django_mq_archivebatch"
        verbose_name = _("archive batch")
        verbose_name_plural = _("archive")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.id} ({self.get_state_display()})"


class BulkJob(models.Model):
    """Messages that are published once, however often the job is tried; named by its key."""

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(_("key"), max_length=200, unique=True)
    parts = models.PositiveIntegerField(
        _("parts"), default=0, help_text=_("How the rows are divided; the same at every attempt.")
    )
    query_id = models.CharField(_("query"), max_length=100, default="", blank=True)
    started_at = UTCDateTimeField(_("started at"))
    finished_at = UTCDateTimeField(_("finished at"), null=True, blank=True)

    class Meta:
        db_table = "django_mq_bulkjob"
        verbose_name = _("bulk job")
        verbose_name_plural = _("bulk jobs")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.key


class BulkPart(models.Model):
    """One part of a bulk job, committed together with its messages. These rows are the ledger."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(BulkJob, verbose_name=_("job"), on_delete=models.CASCADE, related_name="ledger")
    batch = models.BigIntegerField(_("batch"), default=0, help_text=_("Of a stream; 0 otherwise."))
    part = models.PositiveIntegerField(_("part"))
    rows = models.BigIntegerField(_("rows"))
    checksum = models.CharField(_("checksum"), max_length=64)
    committed_at = UTCDateTimeField(_("committed at"))

    class Meta:
        db_table = "django_mq_bulkpart"
        verbose_name = _("part of a bulk job")
        verbose_name_plural = _("parts of bulk jobs")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["job", "batch", "part"], name="django_mq_bulkpart_once")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.batch}/{self.part}"


class InsightHour(models.Model):
    """The figures of one hour of a queue, at one level or, with level -1, at all levels. Times in seconds."""

    ALL_LEVELS = -1

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    level = models.SmallIntegerField(_("level"), default=ALL_LEVELS)
    hour = UTCDateTimeField(_("hour"))
    arrivals = models.BigIntegerField(_("arrivals"), default=0)
    completions = models.BigIntegerField(_("completions"), default=0)
    expired = models.BigIntegerField(_("expired"), default=0)
    removed = models.BigIntegerField(_("cancelled or purged"), default=0)
    retries = models.BigIntegerField(_("retries"), default=0)
    first_successes = models.BigIntegerField(_("done at the first attempt"), default=0)
    wait_p50 = models.FloatField(_("wait, median"), null=True, blank=True)
    wait_p95 = models.FloatField(_("wait, p95"), null=True, blank=True)
    wait_p99 = models.FloatField(_("wait, p99"), null=True, blank=True)
    wait_sum = models.FloatField(_("wait, sum"), default=0)
    run_p50 = models.FloatField(_("held, median"), null=True, blank=True)
    run_p95 = models.FloatField(_("held, p95"), null=True, blank=True)
    run_p99 = models.FloatField(_("held, p99"), null=True, blank=True)
    run_sum = models.FloatField(_("held, sum"), default=0)
    wait_histogram = models.JSONField(_("waits"), default=dict, blank=True)
    run_histogram = models.JSONField(_("times held"), default=dict, blank=True)
    depth_start = models.BigIntegerField(_("depth at the start"), default=0)
    depth_max = models.BigIntegerField(_("greatest depth"), default=0)
    depth_mean = models.FloatField(_("mean depth"), default=0)
    slo_misses = models.BigIntegerField(_("waited too long"), default=0)
    inversions = models.BigIntegerField(_("priority inversions"), default=0)
    starved = models.BigIntegerField(_("starved"), default=0)
    consumers = models.IntegerField(_("consumers"), default=0)
    fairness = models.FloatField(_("fairness (Jain)"), null=True, blank=True)

    class Meta:
        db_table = "django_mq_insighthour"
        verbose_name = _("hour")
        verbose_name_plural = _("insights")
        ordering = ["-hour", "queue_name", "level"]
        constraints = [
            models.UniqueConstraint(fields=["queue_name", "level", "hour"], name="django_mq_insighthour_once")
        ]
        indexes = [models.Index(fields=["level", "hour"], name="django_mq_insighthour_time")]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.hour:%Y-%m-%d %H:00}"


class InsightDay(models.Model):
    """How long the messages of one day of a queue waited and were held: the sums of its hours, at all levels."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    day = models.DateField(_("day"))
    wait_histogram = models.JSONField(_("waits"), default=dict, blank=True)
    run_histogram = models.JSONField(_("times held"), default=dict, blank=True)

    class Meta:
        db_table = "django_mq_insightday"
        verbose_name = _("day")
        verbose_name_plural = _("days")
        ordering = ["-day", "queue_name"]
        constraints = [models.UniqueConstraint(fields=["queue_name", "day"], name="django_mq_insightday_once")]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.day}"


class InsightCause(models.Model):
    """How many attempts failed, or messages died, on one day, in one queue, for one reason."""

    id = models.BigAutoField(primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=200)
    day = models.DateField(_("day"))
    dead = models.BooleanField(_("dead letter"), help_text=_("Dead letters; otherwise failed attempts."))
    reason = models.CharField(_("reason"), max_length=255)
    messages = models.BigIntegerField(_("messages"))

    class Meta:
        db_table = "django_mq_insightcause"
        verbose_name = _("cause")
        verbose_name_plural = _("causes")
        ordering = ["-day", "-messages"]
        constraints = [
            models.UniqueConstraint(
                fields=["queue_name", "day", "dead", "reason"], name="django_mq_insightcause_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue_name}: {self.reason}"
