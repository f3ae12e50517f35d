"""What receivers of other brokers' messages do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Orders" and "orders" apart: see 0043_spelling_of_mariadb."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(
            "ALTER TABLE django_mq_receiver CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0054_forget_results"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReceiverState",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("name", models.CharField(max_length=100, unique=True, verbose_name="receiver")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("receives", "receives"),
                            ("away", "broker away"),
                            ("blocked", "blocked"),
                            ("stopped", "stopped"),
                        ],
                        default="stopped",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("since", models.DateTimeField(null=True, verbose_name="since")),
                ("problem", models.TextField(blank=True, default="", verbose_name="problem")),
                ("holder", models.CharField(blank=True, default="", max_length=255, verbose_name="process")),
                ("held_until", models.DateTimeField(null=True)),
                ("received", models.PositiveBigIntegerField(default=0, verbose_name="received")),
                ("duplicates", models.PositiveBigIntegerField(default=0, verbose_name="duplicates")),
                ("kept", models.PositiveBigIntegerField(default=0, verbose_name="kept as dead letters")),
                ("last_at", models.DateTimeField(null=True, verbose_name="last message")),
            ],
            options={
                "verbose_name": "receiver",
                "verbose_name_plural": "receivers",
                "db_table": "django_mq_receiver",
                "ordering": ["name"],
            },
        ),
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
