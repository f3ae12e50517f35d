"""Workflows, and their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.db.models.deletion
from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SPELT = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def spell(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:  # noqa: ARG001 - Django's
    """Let MariaDB and MySQL tell "Shop" and "shop" apart: see 0002_whole_indexes."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in ("django_mq_steprun", "django_mq_workflowrun"):
            schema_editor.execute(SPELT.format(table=table))


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0045_durable"),
    ]

    operations = [
        migrations.CreateModel(
            name="StepRun",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("number", models.IntegerField(default=-1, verbose_name="number")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("ready", "published"),
                            ("held", "waits for its workflows"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("skipped", "skipped"),
                            ("blocked", "not run"),
                            ("cancelled", "cancelled"),
                            ("compensating", "compensating"),
                            ("compensated", "compensated"),
                            ("stuck", "not compensated"),
                        ],
                        default="waiting",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("waits", models.IntegerField(default=0)),
                ("failed", models.IntegerField(default=0)),
                ("items", models.IntegerField(null=True, verbose_name="items")),
                ("result", models.TextField(null=True, verbose_name="result")),
                ("item", models.TextField(null=True, verbose_name="item")),
                ("reason", models.CharField(blank=True, default="", max_length=255, verbose_name="reason")),
                ("message_id", models.UUIDField(null=True, verbose_name="message")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
            ],
            options={
                "verbose_name": "step of a workflow",
                "verbose_name_plural": "steps of workflows",
                "db_table": "django_mq_steprun",
                "ordering": ["run", "id"],
            },
        ),
        migrations.CreateModel(
            name="WorkflowRun",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200, verbose_name="name")),
                ("version", models.CharField(max_length=16, verbose_name="version")),
                ("graph", models.TextField(verbose_name="steps")),
                ("input", models.TextField(verbose_name="input")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "running"),
                            ("stopping", "stopping"),
                            ("compensating", "compensating"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="running",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=255, verbose_name="reason")),
                ("outcome", models.CharField(blank=True, default="", editable=False, max_length=16)),
                ("open_steps", models.PositiveIntegerField(default=0, verbose_name="steps that have not ended")),
                ("root", models.UUIDField(editable=False)),
                ("key_name", models.CharField(editable=False, max_length=64, null=True, unique=True)),
                ("label", models.CharField(blank=True, default="", max_length=255, verbose_name="unique key")),
                ("created_at", models.DateTimeField(verbose_name="started")),
                ("deadline_at", models.DateTimeField(null=True, verbose_name="deadline")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="django_mq.steprun",
                        verbose_name="step of",
                    ),
                ),
            ],
            options={
                "verbose_name": "workflow",
                "verbose_name_plural": "workflows",
                "db_table": "django_mq_workflowrun",
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("retry_workflowrun", "Can retry workflows"),
                    ("cancel_workflowrun", "Can cancel workflows"),
                ],
            },
        ),
        # Before the tables refer to each other by ids, which may be texts there.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
        migrations.AddField(
            model_name="steprun",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="steps",
                to="django_mq.workflowrun",
            ),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(fields=["state", "ended_at"], name="django_mq_workflow_state"),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(fields=["deadline_at"], name="django_mq_workflow_deadline"),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(fields=["created_at"], name="django_mq_workflow_created"),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(fields=["root"], name="django_mq_workflow_root"),
        ),
        migrations.AddIndex(
            model_name="steprun",
            index=models.Index(fields=["message_id"], name="django_mq_step_message"),
        ),
        migrations.AddConstraint(
            model_name="steprun",
            constraint=models.UniqueConstraint(fields=("run", "name", "number"), name="django_mq_step_once"),
        ),
    ]
