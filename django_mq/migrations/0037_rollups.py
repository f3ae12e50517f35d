"""Figures of the past by queue and type, with histograms.

The table of the minutes of earlier releases stays, because their workers write to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

TABLE = "django_mq_rollupstep"


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Shop" and "shop" apart: see 0002_whole_indexes."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(f"ALTER TABLE {TABLE} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


def number(name: str) -> models.Field[int, int]:
    return models.PositiveBigIntegerField(default=0, verbose_name=name)


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0036_indexes_of_mariadb")]
    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("Rollup")]),
        migrations.CreateModel(
            name="Rollup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("seconds", models.PositiveIntegerField(default=60, verbose_name="length in seconds")),
                ("begins_at", UTCDateTimeField(verbose_name="begins at")),
                ("queue_name", models.CharField(blank=True, max_length=200, verbose_name="queue")),
                ("type", models.CharField(blank=True, default="", max_length=255, verbose_name="type")),
                ("minutes", models.PositiveSmallIntegerField(default=1, verbose_name="known minutes")),
                ("arrived", number("arrived")),
                ("accepted", number("accepted")),
                ("expired", number("expired")),
                ("removed", number("removed otherwise")),
                ("dead", number("died")),
                ("failed", number("failed attempts")),
                ("redelivered", number("redelivered")),
                ("ready", models.PositiveBigIntegerField(null=True, verbose_name="ready")),
                ("claimed", models.PositiveBigIntegerField(null=True, verbose_name="claimed")),
                ("wait_seconds", models.FloatField(default=0.0, verbose_name="waited in all")),
                ("run_seconds", models.FloatField(default=0.0, verbose_name="held in all")),
                ("waits", models.TextField(default="{}", verbose_name="histogram of waits")),
                ("runs", models.TextField(default="{}", verbose_name="histogram of times held")),
                (
                    "newest",
                    models.BigIntegerField(
                        help_text="Highest message id when the minute was summed up.",
                        null=True,
                        verbose_name="newest message",
                    ),
                ),
                (
                    "counted",
                    models.BigIntegerField(
                        default=0,
                        help_text="Finished messages and failed attempts when it was summed up.",
                        verbose_name="counted rows",
                    ),
                ),
            ],
            options={
                "verbose_name": "rollup",
                "verbose_name_plural": "rollups",
                "db_table": TABLE,
                "ordering": ["-begins_at", "queue_name", "type"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=["seconds", "begins_at", "queue_name", "type"], name="django_mq_rollupstep_once"
                    )
                ],
            },
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
