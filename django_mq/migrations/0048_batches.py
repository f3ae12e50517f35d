"""Batches: their rows, and those of their members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.db.models.deletion
from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Parts" and "parts" apart: see 0043_spelling_of_mariadb."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in ("django_mq_batch", "django_mq_batchmember"):
            schema_editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0047_results"),
    ]

    operations = [
        migrations.CreateModel(
            name="MessageBatch",
            fields=[
                (
                    "id",
                    models.UUIDField(editable=False, primary_key=True, serialize=False, verbose_name="batch id"),
                ),
                ("name", models.CharField(blank=True, default="", max_length=200, verbose_name="name")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="open",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("on_complete", models.TextField(blank=True, default="", verbose_name="when complete")),
                ("on_success", models.TextField(blank=True, default="", verbose_name="when successful")),
                ("on_failure", models.TextField(blank=True, default="", verbose_name="at the first failure")),
                ("complete_at", models.DateTimeField(null=True)),
                ("success_at", models.DateTimeField(null=True)),
                ("failure_at", models.DateTimeField(null=True)),
                ("problem", models.TextField(blank=True, default="", verbose_name="problem")),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("cancelled_at", models.DateTimeField(null=True, verbose_name="cancelled at")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                ("locked_at", models.DateTimeField(null=True)),
                ("counted_at", models.DateTimeField(null=True, verbose_name="counted at")),
                ("waiting", models.PositiveIntegerField(default=0, verbose_name="waiting")),
                ("succeeded", models.PositiveIntegerField(default=0, verbose_name="succeeded")),
                ("failed", models.PositiveIntegerField(default=0, verbose_name="failed")),
                ("cancelled", models.PositiveIntegerField(default=0, verbose_name="cancelled")),
            ],
            options={
                "verbose_name": "batch",
                "verbose_name_plural": "batches",
                "db_table": "django_mq_batch",
                "ordering": ["-created_at"],
                "indexes": [
                    models.Index(fields=["state", "created_at"], name="django_mq_batch_state"),
                    models.Index(fields=["created_at"], name="django_mq_batch_created"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BatchMember",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                (
                    "state",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "waiting"), (1, "succeeded"), (2, "failed"), (3, "cancelled")], default=0
                    ),
                ),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("task_id", models.CharField(blank=True, default="", max_length=255, verbose_name="task id")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                (
                    "batch",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="members",
                        to="django_mq.messagebatch",
                    ),
                ),
            ],
            options={
                "verbose_name": "member of a batch",
                "verbose_name_plural": "members of batches",
                "db_table": "django_mq_batchmember",
                "indexes": [models.Index(fields=["batch", "state", "id"], name="django_mq_batchmember_state")],
            },
        ),
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
