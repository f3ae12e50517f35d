"""The tables of limits by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: See 0002_whole_indexes.
SPELT = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
TABLES = ("django_mq_limitkey", "django_mq_limithold", "django_mq_limitexception")


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Shop" and "shop" apart."""
    if not schema_editor.connection.features.supports_partial_indexes:
        for table in TABLES:
            schema_editor.execute(SPELT.format(table=table))


def key_fields(**of_limit: Any) -> list[tuple[str, models.Field[Any, Any]]]:
    return [
        ("id", models.BigAutoField(primary_key=True, serialize=False)),
        ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
        ("limit_name", models.CharField(max_length=50, verbose_name="limit", **of_limit)),
        ("limited_key", models.CharField(max_length=255, verbose_name="key")),
    ]


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0027_parked_messages")]
    operations = [
        migrations.CreateModel(
            name="LimitKey",
            fields=[
                *key_fields(),
                ("free_at", models.FloatField(editable=False)),
                ("seen_at", models.FloatField(editable=False)),
            ],
            options={
                "db_table": "django_mq_limitkey",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "limit_name", "limited_key"), name="django_mq_limitkey_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LimitHold",
            fields=[*key_fields(), ("held_until", models.FloatField(editable=False))],
            options={
                "db_table": "django_mq_limithold",
                "indexes": [
                    models.Index(models.F("queue_name"), models.F("held_until"), name="django_mq_limithold_queue")
                ],
            },
        ),
        migrations.CreateModel(
            name="LimitException",
            fields=[
                *key_fields(help_text="The name of the limit in the code."),
                ("amount", models.FloatField(verbose_name="messages")),
                ("seconds", models.FloatField(verbose_name="in seconds")),
                ("burst", models.FloatField(default=1, verbose_name="at once")),
            ],
            options={
                "verbose_name": "exception of a limit",
                "verbose_name_plural": "exceptions of limits",
                "db_table": "django_mq_limitexception",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "limit_name", "limited_key"), name="django_mq_limitexception_once"
                    )
                ],
            },
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
