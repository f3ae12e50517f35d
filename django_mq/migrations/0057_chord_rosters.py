from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

import django_mq.models.times

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: MariaDB and MySQL tell ids apart by case: see 0002_whole_indexes.
SPELT = "ALTER TABLE django_mq_chordroster CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def spell(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Give the table the collation of the others."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(SPELT)


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0056_event_permissions"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChordRoster",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("group_id", models.CharField(max_length=255)),
                ("members", models.TextField()),
                ("suspects", models.TextField(blank=True, default="")),
                ("looked_at", django_mq.models.times.UTCDateTimeField()),
            ],
            options={
                "db_table": "django_mq_chordroster",
                "indexes": [
                    models.Index(fields=["group_id"], name="django_mq_chordroster_group"),
                    models.Index(fields=["looked_at"], name="django_mq_chordroster_looked"),
                ],
            },
        ),
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
