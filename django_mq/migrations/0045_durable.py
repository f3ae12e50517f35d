"""What durable handlers have done, and the events for which they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.db.models.deletion
from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Paid" and "paid" apart: see 0043_spelling_of_mariadb."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in ("django_mq_durableevent", "django_mq_durablestep"):
            schema_editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0044_results_of_messages"),
    ]

    operations = [
        migrations.CreateModel(
            name="DurableEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200, verbose_name="event")),
                ("key", models.CharField(blank=True, max_length=200, verbose_name="key")),
                ("payload", models.TextField(default="null", verbose_name="payload")),
                ("emitted_at", models.DateTimeField(blank=True, null=True, verbose_name="emitted at")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="kept until")),
                ("waited_at", models.DateTimeField(blank=True, null=True, verbose_name="last waited for")),
            ],
            options={
                "verbose_name": "event of durable handlers",
                "verbose_name_plural": "events of durable handlers",
                "db_table": "django_mq_durableevent",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="DurableStep",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("place", models.PositiveIntegerField(verbose_name="place")),
                (
                    "kind",
                    models.CharField(
                        choices=[("step", "step"), ("sleep", "sleep"), ("wait", "wait"), ("patch", "patch")],
                        max_length=10,
                        verbose_name="kind",
                    ),
                ),
                ("name", models.CharField(blank=True, max_length=200, verbose_name="name")),
                ("key", models.CharField(blank=True, max_length=200, verbose_name="key")),
                ("number", models.PositiveIntegerField(default=0, verbose_name="number of this name")),
                (
                    "outcome",
                    models.CharField(
                        choices=[("open", "waits"), ("done", "done"), ("timed_out", "timed out")],
                        max_length=10,
                        verbose_name="state",
                    ),
                ),
                ("result", models.TextField(default="null", verbose_name="result")),
                ("until", models.DateTimeField(blank=True, null=True, verbose_name="until")),
                ("recorded_at", models.DateTimeField(verbose_name="recorded at")),
                ("seconds", models.FloatField(blank=True, null=True, verbose_name="seconds")),
                ("attempt", models.PositiveIntegerField(default=1, verbose_name="attempt")),
                (
                    "event",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="waits",
                        to="django_mq.durableevent",
                    ),
                ),
            ],
            options={
                "verbose_name": "step of a durable handler",
                "verbose_name_plural": "steps of durable handlers",
                "db_table": "django_mq_durablestep",
                "ordering": ["place"],
            },
        ),
        migrations.AddIndex(
            model_name="durableevent",
            index=models.Index(fields=["expires_at"], name="django_mq_durableevent_expires"),
        ),
        migrations.AddConstraint(
            model_name="durableevent",
            constraint=models.UniqueConstraint(fields=("name", "key"), name="django_mq_durableevent_name"),
        ),
        migrations.AddIndex(
            model_name="durablestep",
            index=models.Index(fields=["recorded_at"], name="django_mq_durablestep_recorded"),
        ),
        migrations.AddConstraint(
            model_name="durablestep",
            constraint=models.UniqueConstraint(
                fields=("message_id", "queue_name", "place"), name="django_mq_durablestep_place"
            ),
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
