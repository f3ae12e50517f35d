"""What handlers report of their progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Prices" and "prices" apart: see 0043_spelling_of_mariadb."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(
            "ALTER TABLE django_mq_messageprogress CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0052_bridges"),
    ]

    operations = [
        migrations.CreateModel(
            name="MessageProgress",
            fields=[
                (
                    "message_id",
                    models.UUIDField(editable=False, primary_key=True, serialize=False, verbose_name="message id"),
                ),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("fraction", models.FloatField(verbose_name="progress")),
                ("text", models.CharField(blank=True, max_length=200, verbose_name="text")),
                ("attempt", models.PositiveIntegerField(verbose_name="attempt")),
                ("reported_at", models.DateTimeField(db_index=True, verbose_name="reported at")),
            ],
            options={
                "verbose_name": "progress of a message",
                "verbose_name_plural": "progress of messages",
                "db_table": "django_mq_messageprogress",
            },
        ),
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
