"""Redrives in stages, acknowledged dead letters, and snoozed alerts."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0032_failures"),
    ]

    operations = [
        migrations.CreateModel(
            name="StagedRedrive",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "first",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="So many messages go first, and the rest when these have succeeded.",
                        verbose_name="first",
                    ),
                ),
                ("per_minute", models.FloatField(blank=True, null=True, verbose_name="most a minute")),
                (
                    "status",
                    models.CharField(
                        choices=[("running", "running"), ("done", "done"), ("stopped", "stopped")],
                        default="running",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=20, verbose_name="reason")),
                ("about", models.CharField(blank=True, default="", editable=False, max_length=255)),
                ("user_name", models.CharField(blank=True, default="", max_length=255, verbose_name="started by")),
                ("sent", models.PositiveBigIntegerField(default=0, verbose_name="sent")),
                ("succeeded", models.PositiveBigIntegerField(default=0, verbose_name="succeeded")),
                ("failed", models.PositiveBigIntegerField(default=0, verbose_name="failed")),
                ("removed", models.PositiveBigIntegerField(default=0, verbose_name="removed")),
                (
                    "stayed",
                    models.PositiveBigIntegerField(
                        default=0,
                        help_text="Their queue is unknown, closed or full, or has them already.",
                        verbose_name="stayed",
                    ),
                ),
                ("forgiven", models.PositiveBigIntegerField(default=0, editable=False)),
                ("cursor", models.BigIntegerField(default=0, editable=False)),
                ("newest", models.BigIntegerField(editable=False)),
                ("watched", models.BigIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(verbose_name="started")),
                ("paced_at", models.DateTimeField(editable=False)),
                ("beat_at", models.DateTimeField(verbose_name="last look")),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="redrives",
                        to="django_mq.failuregroup",
                        verbose_name="failure group",
                    ),
                ),
            ],
            options={
                "verbose_name": "redrive in stages",
                "verbose_name_plural": "redrives in stages",
                "db_table": "django_mq_stagedredrive",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="StagedMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("row_id", models.BigIntegerField()),
                ("queue_name", models.CharField(max_length=200)),
                ("message_id", models.UUIDField()),
                ("correlation_id", models.CharField(max_length=255, null=True)),
                ("sent_at", models.DateTimeField()),
                (
                    "outcome",
                    models.PositiveSmallIntegerField(
                        choices=[(1, "succeeded"), (2, "failed"), (3, "removed")], null=True
                    ),
                ),
                (
                    "redrive",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="django_mq.stagedredrive",
                    ),
                ),
            ],
            options={
                "db_table": "django_mq_stagedmessage",
                "indexes": [
                    models.Index(
                        models.F("redrive"), models.F("outcome"), models.F("id"), name="django_mq_staged_outcome"
                    ),
                    models.Index(models.F("message_id"), name="django_mq_staged_message"),
                    models.Index(models.F("correlation_id"), name="django_mq_staged_corr"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AcknowledgedLetter",
            fields=[
                ("row_id", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="message")),
                ("dead_at", models.DateTimeField(null=True, verbose_name="dead since")),
                ("reason", models.CharField(max_length=200, verbose_name="reason")),
                ("acknowledged_at", models.DateTimeField(verbose_name="acknowledged at")),
            ],
            options={
                "verbose_name": "acknowledged dead letter",
                "verbose_name_plural": "acknowledged dead letters",
                "db_table": "django_mq_acknowledgedletter",
            },
        ),
        migrations.CreateModel(
            name="SnoozedAlert",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=20, verbose_name="kind")),
                (
                    "about",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="The queue, or what an extension names.",
                        max_length=255,
                        verbose_name="about",
                    ),
                ),
                ("reason", models.CharField(max_length=200, verbose_name="reason")),
                ("until", models.DateTimeField(verbose_name="until")),
                ("user_name", models.CharField(blank=True, default="", max_length=255, verbose_name="snoozed by")),
                ("created_at", models.DateTimeField(verbose_name="since")),
            ],
            options={
                "verbose_name": "snoozed alert",
                "verbose_name_plural": "snoozed alerts",
                "db_table": "django_mq_snoozedalert",
                "ordering": ["-until", "-id"],
                "indexes": [models.Index(fields=["until"], name="django_mq_snoozed_until")],
            },
        ),
    ]
