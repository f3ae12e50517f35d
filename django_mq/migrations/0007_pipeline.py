"""Tables of the data pipeline: manifests, ledgers, insights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.db.models.deletion
from django.db import migrations, models

TABLES = ("archivebatch", "bulkjob", "bulkpart", "insighthour", "insightcause")
#: As for the tables before: the usual collations take "Orders" and "orders" for one name.
SPELT = "ALTER TABLE django_mq_{table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def compare_by_bytes(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:  # noqa: ARG001 - Django's order
    """Compare names as they are spelt, on MariaDB and MySQL."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in TABLES:
            schema_editor.execute(SPELT.format(table=table))


if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0006_guarded_sessions"),
    ]

    operations = [
        migrations.CreateModel(
            name="ArchiveBatch",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "state",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "planned"), (1, "written"), (2, "purged"), (3, "replaced")],
                        default=0,
                        verbose_name="state",
                    ),
                ),
                ("active", models.BooleanField(blank=True, null=True, unique=True, verbose_name="under way")),
                ("first_id", models.BigIntegerField(verbose_name="first id")),
                ("last_id", models.BigIntegerField(verbose_name="last id")),
                ("cutoff", models.DateTimeField(verbose_name="finished before")),
                ("root", models.CharField(max_length=1000, verbose_name="root")),
                ("path", models.CharField(blank=True, default="", max_length=1100, verbose_name="directory")),
                (
                    "days",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="Rows and checksum of each day, in UTC.",
                        verbose_name="days",
                    ),
                ),
                ("rows", models.BigIntegerField(default=0, verbose_name="rows")),
                ("purged_rows", models.BigIntegerField(default=0, verbose_name="rows deleted from the history")),
                ("attempt", models.UUIDField(blank=True, null=True, verbose_name="attempt")),
                ("holder", models.CharField(blank=True, default="", max_length=255, verbose_name="holder")),
                ("lease_until", models.DateTimeField(blank=True, null=True, verbose_name="lease until")),
                ("planned_at", models.DateTimeField(verbose_name="planned at")),
                ("written_at", models.DateTimeField(blank=True, null=True, verbose_name="written at")),
                ("purged_at", models.DateTimeField(blank=True, null=True, verbose_name="purged at")),
            ],
            options={
                "verbose_name": "archive batch",
                "verbose_name_plural": "archive",
                "db_table": "django_mq_archivebatch",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="BulkJob",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=200, unique=True, verbose_name="key")),
                (
                    "parts",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="How the rows are divided; the same at every attempt.",
                        verbose_name="parts",
                    ),
                ),
                ("query_id", models.CharField(blank=True, default="", max_length=100, verbose_name="query")),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("finished_at", models.DateTimeField(blank=True, null=True, verbose_name="finished at")),
            ],
            options={
                "verbose_name": "bulk job",
                "verbose_name_plural": "bulk jobs",
                "db_table": "django_mq_bulkjob",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="InsightCause",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("day", models.DateField(verbose_name="day")),
                (
                    "dead",
                    models.BooleanField(help_text="Or else an attempt that failed.", verbose_name="dead letter"),
                ),
                ("reason", models.CharField(max_length=255, verbose_name="reason")),
                ("messages", models.BigIntegerField(verbose_name="messages")),
            ],
            options={
                "verbose_name": "cause",
                "verbose_name_plural": "causes",
                "db_table": "django_mq_insightcause",
                "ordering": ["-day", "-messages"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "day", "dead", "reason"), name="django_mq_insightcause_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="InsightHour",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("level", models.SmallIntegerField(default=-1, verbose_name="level")),
                ("hour", models.DateTimeField(verbose_name="hour")),
                ("arrivals", models.BigIntegerField(default=0, verbose_name="arrivals")),
                ("completions", models.BigIntegerField(default=0, verbose_name="completions")),
                ("expired", models.BigIntegerField(default=0, verbose_name="expired")),
                ("removed", models.BigIntegerField(default=0, verbose_name="cancelled or purged")),
                ("retries", models.BigIntegerField(default=0, verbose_name="retries")),
                ("first_successes", models.BigIntegerField(default=0, verbose_name="done at the first attempt")),
                ("wait_p50", models.FloatField(blank=True, null=True, verbose_name="wait, median")),
                ("wait_p95", models.FloatField(blank=True, null=True, verbose_name="wait, p95")),
                ("wait_p99", models.FloatField(blank=True, null=True, verbose_name="wait, p99")),
                ("wait_sum", models.FloatField(default=0, verbose_name="wait, sum")),
                ("run_p50", models.FloatField(blank=True, null=True, verbose_name="run, median")),
                ("run_p95", models.FloatField(blank=True, null=True, verbose_name="run, p95")),
                ("run_p99", models.FloatField(blank=True, null=True, verbose_name="run, p99")),
                ("run_sum", models.FloatField(default=0, verbose_name="run, sum")),
                ("wait_histogram", models.JSONField(blank=True, default=dict, verbose_name="waits")),
                ("run_histogram", models.JSONField(blank=True, default=dict, verbose_name="runs")),
                ("depth_start", models.BigIntegerField(default=0, verbose_name="depth at the start")),
                ("depth_max", models.BigIntegerField(default=0, verbose_name="greatest depth")),
                ("depth_mean", models.FloatField(default=0, verbose_name="mean depth")),
                ("slo_misses", models.BigIntegerField(default=0, verbose_name="waited too long")),
                ("inversions", models.BigIntegerField(default=0, verbose_name="priority inversions")),
                ("starved", models.BigIntegerField(default=0, verbose_name="starved")),
                ("consumers", models.IntegerField(default=0, verbose_name="consumers")),
                ("fairness", models.FloatField(blank=True, null=True, verbose_name="fairness (Jain)")),
            ],
            options={
                "verbose_name": "hour",
                "verbose_name_plural": "insights",
                "db_table": "django_mq_insighthour",
                "ordering": ["-hour", "queue_name", "level"],
                "indexes": [models.Index(fields=["level", "hour"], name="django_mq_insighthour_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "level", "hour"), name="django_mq_insighthour_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkPart",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "batch",
                    models.BigIntegerField(default=0, help_text="Of a stream; 0 otherwise.", verbose_name="batch"),
                ),
                ("part", models.PositiveIntegerField(verbose_name="part")),
                ("rows", models.BigIntegerField(verbose_name="rows")),
                ("checksum", models.CharField(max_length=64, verbose_name="checksum")),
                ("committed_at", models.DateTimeField(verbose_name="committed at")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="ledger",
                        to="django_mq.bulkjob",
                        verbose_name="job",
                    ),
                ),
            ],
            options={
                "verbose_name": "part of a bulk job",
                "verbose_name_plural": "parts of bulk jobs",
                "db_table": "django_mq_bulkpart",
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "batch", "part"), name="django_mq_bulkpart_once")
                ],
            },
        ),
        migrations.RunPython(compare_by_bytes, migrations.RunPython.noop, atomic=False),
    ]
