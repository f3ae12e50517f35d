"""Periodic messages and their runs."""

import django.core.serializers.json
import django.db.models.deletion
from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0024_what_runs"),
    ]

    operations = [
        migrations.CreateModel(
            name="PeriodicMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200, unique=True, verbose_name="name")),
                (
                    "cron",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text=(
                            "Minute, hour, day of the month, month, day of the week; "
                            "six fields begin with the second."
                        ),
                        max_length=255,
                        verbose_name="cron line",
                    ),
                ),
                ("every_seconds", models.FloatField(blank=True, null=True, verbose_name="interval in seconds")),
                ("tz", models.CharField(default="UTC", max_length=64, verbose_name="time zone")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("message", "message of a queue"),
                            ("celery", "Celery task"),
                            ("task", "Django task"),
                        ],
                        default="message",
                        max_length=10,
                        verbose_name="what is published",
                    ),
                ),
                (
                    "queue",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="Blank for the queue of the task.",
                        max_length=200,
                        verbose_name="queue",
                    ),
                ),
                (
                    "target",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text=(
                            "The type of the message, the name of the Celery task, or the path of the Django task."
                        ),
                        max_length=255,
                        verbose_name="type or task",
                    ),
                ),
                (
                    "body",
                    models.JSONField(
                        blank=True,
                        default=None,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        null=True,
                        verbose_name="body",
                    ),
                ),
                (
                    "args",
                    models.JSONField(
                        blank=True,
                        default=list,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        verbose_name="arguments",
                    ),
                ),
                (
                    "kwargs",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        verbose_name="named arguments",
                    ),
                ),
                (
                    "options",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        help_text="What else to publish it with, as {“priority”: 9}.",
                        verbose_name="options",
                    ),
                ),
                (
                    "missed",
                    models.CharField(
                        choices=[
                            ("skip", "skip them"),
                            ("once", "publish one message"),
                            ("all", "publish each of them"),
                        ],
                        default="once",
                        max_length=10,
                        verbose_name="missed ticks",
                    ),
                ),
                (
                    "most_missed",
                    models.PositiveIntegerField(default=100, verbose_name="missed ticks to publish at most"),
                ),
                (
                    "overlap",
                    models.CharField(
                        choices=[
                            ("skip", "skip the tick"),
                            ("queue", "publish it behind the run before"),
                            ("replace", "cancel the run before"),
                        ],
                        default="queue",
                        max_length=10,
                        verbose_name="while the run before lasts",
                    ),
                ),
                ("jitter_seconds", models.FloatField(default=0, verbose_name="jitter in seconds")),
                ("start_at", UTCDateTimeField(blank=True, null=True, verbose_name="start")),
                ("end_at", UTCDateTimeField(blank=True, null=True, verbose_name="end")),
                (
                    "alert_seconds",
                    models.FloatField(
                        blank=True,
                        help_text="A problem is shown when the last success is older.",
                        null=True,
                        verbose_name="alert after seconds",
                    ),
                ),
                ("is_paused", models.BooleanField(default=False, verbose_name="paused")),
                (
                    "paused_reason",
                    models.CharField(blank=True, default="", max_length=255, verbose_name="reason of the pause"),
                ),
                ("is_gone", models.BooleanField(default=False, verbose_name="cannot be published")),
                ("next_at", UTCDateTimeField(blank=True, null=True, verbose_name="next tick to publish")),
                ("look_at", UTCDateTimeField(blank=True, null=True, verbose_name="decided at")),
                ("succeeded_at", UTCDateTimeField(blank=True, null=True, verbose_name="last success")),
                ("dropped_at", UTCDateTimeField(blank=True, null=True, verbose_name="last dropped")),
                ("created_at", UTCDateTimeField(verbose_name="created")),
                ("source", models.CharField(blank=True, default="", max_length=100, verbose_name="declared by")),
                (
                    "declared",
                    models.JSONField(blank=True, default=None, null=True, verbose_name="declared values"),
                ),
            ],
            options={
                "verbose_name": "periodic message",
                "verbose_name_plural": "periodic messages",
                "db_table": "django_mq_periodic",
                "ordering": ["name"],
                "permissions": [
                    ("pause_periodicmessage", "Can pause and resume a periodic message"),
                    ("run_periodicmessage", "Can run a periodic message now"),
                ],
                "indexes": [models.Index(models.F("look_at"), name="django_mq_periodic_look")],
            },
        ),
        migrations.CreateModel(
            name="PeriodicRun",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("due_at", UTCDateTimeField(verbose_name="tick")),
                ("message_id", models.UUIDField(blank=True, null=True, verbose_name="message id")),
                ("queue_name", models.CharField(blank=True, default="", max_length=200, verbose_name="queue")),
                ("by_hand", models.BooleanField(default=False, verbose_name="run by hand")),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "not ended"),
                            ("succeeded", "succeeded"),
                            ("dead", "failed"),
                            ("removed", "removed"),
                            ("expired", "expired"),
                            ("skipped", "skipped: the run before lasted"),
                            ("missed", "missed: no worker was there"),
                            ("discarded", "discarded by a limit of the queue, or by a unique key"),
                            ("dropped", "dropped: celery beat had published it, too"),
                        ],
                        default="",
                        max_length=10,
                        verbose_name="outcome",
                    ),
                ),
                ("ended_at", UTCDateTimeField(blank=True, null=True, verbose_name="ended")),
                (
                    "periodic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="django_mq.periodicmessage",
                        verbose_name="periodic message",
                    ),
                ),
            ],
            options={
                "verbose_name": "run",
                "verbose_name_plural": "runs",
                "db_table": "django_mq_periodicrun",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(models.F("message_id"), name="django_mq_periodicrun_message"),
                    models.Index(
                        models.F("periodic"),
                        models.F("outcome"),
                        models.F("ended_at"),
                        name="django_mq_periodicrun_last",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("periodic", "due_at", "by_hand"), name="django_mq_periodicrun_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PeriodicRelease",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("source", models.CharField(max_length=100, verbose_name="declared by")),
                ("digest", models.CharField(max_length=64, verbose_name="digest")),
                ("began_at", UTCDateTimeField(verbose_name="began")),
            ],
            options={
                "verbose_name": "release of declarations",
                "verbose_name_plural": "releases of declarations",
                "db_table": "django_mq_periodicrelease",
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(fields=("source", "digest"), name="django_mq_periodicrelease_once")
                ],
            },
        ),
    ]
