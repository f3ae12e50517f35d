"""Bridges: the connections of workers, and the outcome of a message that another broker has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Parts" and "parts" apart: see 0043_spelling_of_mariadb."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(
            "ALTER TABLE django_mq_bridgelink CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0051_step_counts_of_workflows"),
    ]

    operations = [
        migrations.AlterField(
            model_name="history",
            name="outcome",
            field=models.PositiveSmallIntegerField(
                choices=[
                    (1, "accepted"),
                    (2, "expired"),
                    (3, "cancelled"),
                    (4, "purged"),
                    (5, "replaced"),
                    (6, "sent to the dead-letter queue"),
                    (7, "moved to another queue"),
                    (8, "over its limit"),
                    (9, "forwarded"),
                ],
                verbose_name="outcome",
            ),
        ),
        migrations.CreateModel(
            name="BridgeLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("bridge", models.CharField(max_length=100, verbose_name="bridge")),
                ("worker", models.CharField(max_length=255, verbose_name="worker")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("connected", "connected"),
                            ("blocked", "blocked by the broker"),
                            ("away", "cannot reach the broker"),
                        ],
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("since", models.DateTimeField(verbose_name="since")),
                ("confirms", models.BooleanField(default=True, verbose_name="the broker confirms")),
                ("forwarded", models.BigIntegerField(default=0, verbose_name="forwarded")),
                ("dead", models.BigIntegerField(default=0, verbose_name="dead letters")),
                ("per_second", models.FloatField(default=0.0, verbose_name="messages a second")),
                ("error", models.TextField(blank=True, default="", verbose_name="last error")),
                ("error_at", models.DateTimeField(null=True, verbose_name="time of the last error")),
                ("seen_at", models.DateTimeField(verbose_name="last seen")),
            ],
            options={
                "verbose_name": "connection of a bridge",
                "verbose_name_plural": "connections of bridges",
                "db_table": "django_mq_bridgelink",
                "ordering": ["bridge", "id"],
                "indexes": [models.Index(fields=["seen_at"], name="django_mq_bridgelink_seen")],
            },
        ),
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
