"""The tables of limits by key, and of runs whose messages are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: See 0002_whole_indexes.
SPELT = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
TABLES = (
    *("django_mq_limitkey", "django_mq_limithold", "django_mq_limitslot", "django_mq_limitexception"),
    "django_mq_run",
)


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
        migrations.AlterField(
            "history",
            "outcome",
            models.PositiveSmallIntegerField(
                choices=[
                    (1, "accepted"),
                    (2, "expired"),
                    (3, "cancelled"),
                    (4, "purged"),
                    (5, "replaced"),
                    (6, "sent to the dead-letter queue"),
                    (7, "moved to another queue"),
                    (8, "over its limit"),
                ],
                verbose_name="outcome",
            ),
        ),
        migrations.CreateModel(
            name="LimitKey",
            fields=[
                *key_fields(),
                ("free_at", models.FloatField(editable=False)),
                ("seen_at", models.FloatField(editable=False)),
                ("waiting_until", models.FloatField(blank=True, editable=False, null=True)),
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
            name="LimitSlot",
            fields=[*key_fields(), ("message_row", models.BigIntegerField()), ("claim", models.BigIntegerField())],
            options={
                "db_table": "django_mq_limitslot",
                "indexes": [models.Index(models.F("queue_name"), name="django_mq_limitslot_queue")],
            },
        ),
        migrations.CreateModel(
            name="BegunTask",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("claim", models.BigIntegerField()),
                ("session_id", models.BigIntegerField()),
                ("queue_name", models.CharField(max_length=200)),
                ("message_id", models.UUIDField()),
                ("type", models.CharField(default="", max_length=255)),
                ("headers", models.JSONField(default=dict)),
                ("properties", models.JSONField(null=True)),
                ("told_to", models.CharField(max_length=255, null=True)),
                ("began_at", UTCDateTimeField()),
            ],
            options={
                "db_table": "django_mq_run",
                "indexes": [models.Index(models.F("session_id"), name="django_mq_run_session")],
            },
        ),
        migrations.CreateModel(
            name="LimitException",
            fields=[
                *key_fields(help_text="The name of the limit in the code."),
                ("amount", models.FloatField(blank=True, null=True, verbose_name="messages")),
                ("seconds", models.FloatField(blank=True, null=True, verbose_name="in seconds")),
                (
                    "burst",
                    models.FloatField(
                        blank=True,
                        help_text="How many begin at once after a pause.",
                        null=True,
                        verbose_name="burst",
                    ),
                ),
                ("at_once", models.PositiveIntegerField(blank=True, null=True, verbose_name="run at once")),
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
