"""Queues say who may claim: groups, strict order, limits; and tables for what belongs to whom.

Every new field may be null or has a default in the database, so that the version before goes on
inserting queues. The index of the groups that wait for a retry is made in 0011.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.core.validators
from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def compare_as_spelt(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "a" from "A" in the new tables, as 0002 did with the others."""
    if schema_editor.connection.features.supports_partial_indexes:
        return
    for name in ("Ownership", "Turn"):
        table = apps.get_model("django_mq", name)._meta.db_table
        schema_editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0003_publish_rules"),
    ]

    operations = [
        migrations.CreateModel(
            name="Ownership",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_id", models.BigIntegerField(verbose_name="queue")),
                ("group_key", models.CharField(blank=True, max_length=255, null=True, verbose_name="group key")),
                ("session_id", models.BigIntegerField(verbose_name="worker session")),
            ],
            options={
                "verbose_name": "ownership",
                "verbose_name_plural": "ownerships",
                "db_table": "django_mq_ownership",
            },
        ),
        migrations.CreateModel(
            name="Turn",
            fields=[
                ("queue_id", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="queue")),
            ],
            options={
                "verbose_name": "turn",
                "verbose_name_plural": "turns",
                "db_table": "django_mq_turn",
            },
        ),
        migrations.AddField(
            model_name="queue",
            name="exclusive",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="One worker receives as long as it lives; others are refused.",
                verbose_name="exclusive",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="grouping",
            field=models.CharField(
                choices=[
                    ("none", "none"),
                    ("assigned", "assigned to a worker"),
                    ("shared", "shared by all workers"),
                    ("sole", "all to one worker"),
                ],
                db_column="group_rule",
                db_default="none",
                default="none",
                help_text="How messages with a group key are shared out; one of a group is delivered at a time.",
                max_length=10,
                verbose_name="grouping",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="max_consumers",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most workers that receive; the others stand by.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="most consumers",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most messages claimed at once, over all workers.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="most in flight",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="strict",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Claims are made one by one, and never past a message that cannot be had just then.",
                verbose_name="strict order",
            ),
        ),
        migrations.AddIndex(
            model_name="ownership",
            index=models.Index(fields=["queue_id", "group_key"], name="django_mq_ownership_group"),
        ),
        migrations.AddIndex(
            model_name="ownership",
            index=models.Index(fields=["session_id"], name="django_mq_ownership_session"),
        ),
        # As in 0002: these databases commit at every change of a table.
        migrations.RunPython(compare_as_spelt, migrations.RunPython.noop, atomic=False),
    ]
