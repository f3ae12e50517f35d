"""Let MariaDB and MySQL tell "Shop" and "shop" apart in later tables, too: see 0002_whole_indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SPELT = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
#: Models whose tables keep the collation of the database: no key of theirs is a text.
NOT_SPELT = {"act", "operation", "taskresult"}
UNSPELT_TABLES = """
SELECT DISTINCT table_name FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name IN %s AND collation_name <> 'utf8mb4_bin' ORDER BY table_name
"""


def spell(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Convert the tables that have another collation."""
    connection = schema_editor.connection
    if connection.features.supports_partial_indexes:
        return
    models = apps.get_app_config("django_mq").get_models()
    tables = [model._meta.db_table for model in models if model._meta.model_name not in NOT_SPELT]
    with connection.cursor() as cursor:
        cursor.execute(UNSPELT_TABLES, [tables])
        found = [table for (table,) in cursor.fetchall()]
    for table in found:
        schema_editor.execute(SPELT.format(table=table))


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0042_limits_of_many_keys")]
    operations = [
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
    ]
