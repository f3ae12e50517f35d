"""What operators did, and to which messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.db.models.deletion
from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL keep any character of a message, in databases of other characters, too."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in ("django_mq_act", "django_mq_actedmessage"):
            schema_editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4")


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0037_rollups"),
    ]

    operations = [
        migrations.CreateModel(
            name="Act",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("began_at", models.DateTimeField(verbose_name="time")),
                ("user_name", models.CharField(max_length=255, verbose_name="user")),
                (
                    "interface",
                    models.CharField(
                        choices=[("admin", "admin"), ("command", "command")],
                        max_length=10,
                        verbose_name="by way of",
                    ),
                ),
                ("model", models.CharField(max_length=40, verbose_name="table")),
                ("name", models.CharField(max_length=40, verbose_name="action")),
                ("about", models.CharField(blank=True, default="", max_length=255, verbose_name="about")),
                ("sentence", models.TextField(blank=True, default="", verbose_name="what was done")),
                ("criterion", models.JSONField(blank=True, default=dict, verbose_name="criterion")),
                ("answers", models.JSONField(blank=True, default=dict, verbose_name="answers")),
                ("command", models.TextField(blank=True, default="", verbose_name="command")),
                ("reason", models.CharField(blank=True, default="", max_length=200, verbose_name="reason")),
                ("count", models.PositiveBigIntegerField(default=0, verbose_name="messages")),
                (
                    "operation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="django_mq.operation",
                    ),
                ),
                (
                    "undoes",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="undone_by",
                        verbose_name="puts back",
                        to="django_mq.act",
                    ),
                ),
            ],
            options={
                "verbose_name": "act of an operator",
                "verbose_name_plural": "acts of operators",
                "db_table": "django_mq_act",
                "ordering": ["-id"],
                "permissions": [("undo_act", "Can undo acts of operators")],
            },
        ),
        migrations.CreateModel(
            name="ActedMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("row_id", models.BigIntegerField(blank=True, editable=False, null=True)),
                ("came_from", models.CharField(max_length=255, verbose_name="came from")),
                ("went_to", models.CharField(max_length=255, verbose_name="went to")),
                ("was_dead", models.BooleanField(default=False, verbose_name="was dead")),
                ("dead_reason", models.CharField(blank=True, default="", max_length=255, verbose_name="reason")),
                ("undone", models.BooleanField(default=False, verbose_name="put back")),
                (
                    "act",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="django_mq.act",
                        verbose_name="act of an operator",
                    ),
                ),
            ],
            options={
                "verbose_name": "message of an act",
                "verbose_name_plural": "messages of acts",
                "db_table": "django_mq_actedmessage",
                "ordering": ["id"],
            },
        ),
        migrations.AddIndex(
            model_name="act",
            index=models.Index(fields=["began_at"], name="django_mq_act_began"),
        ),
        migrations.AddIndex(
            model_name="actedmessage",
            index=models.Index(fields=["message_id"], name="django_mq_actedmessage_message"),
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
