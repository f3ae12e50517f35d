"""Figures of the past by tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

TABLE = "django_mq_tenantstep"


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Acme" and "acme" apart: see 0002_whole_indexes."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(f"ALTER TABLE {TABLE} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


def number(name: str) -> models.Field[int, int]:
    return models.PositiveBigIntegerField(default=0, verbose_name=name)


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0038_acts")]
    operations = [
        migrations.CreateModel(
            name="TenantStep",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("seconds", models.PositiveIntegerField(verbose_name="length in seconds")),
                ("begins_at", UTCDateTimeField(verbose_name="begins at")),
                ("queue_name", models.CharField(blank=True, max_length=200, verbose_name="queue")),
                ("kind", models.PositiveSmallIntegerField(verbose_name="kind")),
                ("tenant", models.CharField(blank=True, max_length=255, verbose_name="tenant")),
                ("accepted", number("accepted")),
                ("failed", number("failed attempts")),
                ("dead", number("died")),
                ("waiting", models.PositiveBigIntegerField(null=True, verbose_name="waiting")),
                ("wait_seconds", models.FloatField(default=0.0, verbose_name="waited in all")),
                ("run_seconds", models.FloatField(default=0.0, verbose_name="held in all")),
                ("waits", models.TextField(default="{}", verbose_name="histogram of waits")),
                (
                    "counted",
                    models.BigIntegerField(
                        default=0,
                        help_text="Finished messages and failed attempts when it was summed up.",
                        verbose_name="counted rows",
                    ),
                ),
                (
                    "every",
                    models.PositiveIntegerField(
                        default=1,
                        help_text="For how many rows each row of the sample stands; 1: all were read.",
                        verbose_name="rows for one",
                    ),
                ),
            ],
            options={
                "verbose_name": "figures of a tenant",
                "verbose_name_plural": "figures of tenants",
                "db_table": TABLE,
                "ordering": ["-begins_at", "queue_name", "tenant"],
                "indexes": [models.Index(fields=["seconds", "begins_at"], name="django_mq_tenantstep_age")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=["seconds", "queue_name", "kind", "begins_at", "tenant"],
                        name="django_mq_tenantstep_once",
                    )
                ],
            },
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
