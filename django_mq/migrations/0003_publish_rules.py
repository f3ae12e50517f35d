"""What a queue does at publish: limits in bytes, overflow, last values, duplicate ids, ends of lives.

Only columns that may be null or have a default in the database, so that the version before this one
goes on inserting while both run. What the table of messages gets stands apart, in 0010 and 0011: a
migration that held it and the queues at once could meet a publisher who holds them the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def compare_as_spelt(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "a" from "A" in the new table, as 0002 did with the others."""
    if not schema_editor.connection.features.supports_partial_indexes:
        table = apps.get_model("django_mq", "DuplicateId")._meta.db_table
        schema_editor.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0002_whole_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="DuplicateId",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("dedup_id", models.CharField(max_length=255, verbose_name="duplicate id")),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("published_at", models.DateTimeField(verbose_name="published at")),
            ],
            options={
                "verbose_name": "duplicate id",
                "verbose_name_plural": "duplicate ids",
                "db_table": "django_mq_duplicateid",
                "ordering": ["-published_at"],
            },
        ),
        migrations.AddField(
            model_name="queue",
            name="counted_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="counted at"),
        ),
        migrations.AddField(
            model_name="queue",
            name="dedup_count",
            field=models.PositiveIntegerField(
                db_default=20000,
                default=20000,
                help_text="How many duplicate ids are remembered at least; 0 = none.",
                verbose_name="duplicate ids",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="dedup_seconds",
            field=models.FloatField(
                blank=True,
                help_text="How long a duplicate id is remembered at most.",
                null=True,
                validators=[django.core.validators.MinValueValidator(0)],
                verbose_name="duplicate ids in seconds",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="dropped",
            field=models.PositiveBigIntegerField(
                db_default=0, default=0, editable=False, verbose_name="dropped messages"
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="expiry_queue",
            field=models.ForeignKey(
                blank=True,
                help_text="Where expired messages go; without one they end in the history.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="expiry_sources",
                to="django_mq.queue",
                verbose_name="expiry queue",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="held_bytes",
            field=models.PositiveBigIntegerField(editable=False, null=True, verbose_name="held bytes"),
        ),
        migrations.AddField(
            model_name="queue",
            name="held_messages",
            field=models.PositiveBigIntegerField(editable=False, null=True, verbose_name="held messages"),
        ),
        migrations.AddField(
            model_name="queue",
            name="last_value_key",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The header of which a last-value queue keeps one message per value.",
                max_length=255,
                verbose_name="key of last values",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="max_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most bytes of bodies held, whatever the state of their messages.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="maximum bytes",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="max_ttl_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A longer one, or none, is cut to this.",
                null=True,
                validators=[django.core.validators.MinValueValidator(0)],
                verbose_name="longest time to live in seconds",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="min_ttl_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A shorter one is prolonged.",
                null=True,
                validators=[django.core.validators.MinValueValidator(0)],
                verbose_name="shortest time to live in seconds",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="overflow",
            field=models.CharField(
                choices=[
                    ("reject", "refuse the new message"),
                    ("ring", "replace the oldest"),
                    ("drop", "drop the new message"),
                    ("flow", "let the publisher wait"),
                ],
                db_default="reject",
                default="reject",
                help_text="What becomes of a message too many.",
                max_length=10,
                verbose_name="overflow",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="wait_seconds",
            field=models.FloatField(
                db_default=5.0,
                default=5.0,
                help_text="How long a publisher waits, if it is let wait, before it is refused.",
                validators=[django.core.validators.MinValueValidator(0)],
                verbose_name="wait for room in seconds",
            ),
        ),
        migrations.AlterField(
            model_name="history",
            name="outcome",
            field=models.PositiveSmallIntegerField(
                choices=[(1, "accepted"), (2, "expired"), (3, "cancelled"), (4, "purged"), (5, "replaced")],
                verbose_name="outcome",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="kind",
            field=models.CharField(
                choices=[
                    ("priority", "priority"),
                    ("fifo", "first in, first out"),
                    ("last_value", "last value of each key"),
                ],
                default="priority",
                max_length=20,
                verbose_name="kind",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_messages",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most messages held, whatever their state.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="maximum messages",
            ),
        ),
        migrations.AddField(
            model_name="duplicateid",
            name="queue",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="duplicate_ids",
                to="django_mq.queue",
                verbose_name="queue",
            ),
        ),
        migrations.AddIndex(
            model_name="duplicateid",
            index=models.Index(fields=["queue", "published_at"], name="django_mq_duplicateid_age"),
        ),
        migrations.AddConstraint(
            model_name="duplicateid",
            constraint=models.UniqueConstraint(fields=("queue", "dedup_id"), name="django_mq_duplicateid_once"),
        ),
        # As in 0002: these databases commit at every change of a table.
        migrations.RunPython(compare_as_spelt, migrations.RunPython.noop, atomic=False),
    ]
