"""How PostgreSQL is to keep its tables: when to vacuum and analyze them.

The defaults wait until a fifth of a table has changed. Every message is a row that is written,
changed and deleted, so with a backlog of millions that is far too late. Changing these settings
blocks neither readers nor writers, and a site may change them again. Why each is as it is:
docs/how-to/big-tables.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations

from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: Table to its settings.
SETTINGS: dict[str, dict[str, float]] = {
    "django_mq_message": {
        "autovacuum_vacuum_scale_factor": 0.01,
        "autovacuum_vacuum_threshold": 10_000,
        "autovacuum_vacuum_insert_scale_factor": 0.1,
        "autovacuum_analyze_scale_factor": 0.05,
        "autovacuum_vacuum_cost_limit": 2000,
    },
    "django_mq_workersession": {
        "fillfactor": 50,
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 500,
    },
    "django_mq_consumer": {
        "fillfactor": 50,
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 500,
    },
    "django_mq_history": {
        "autovacuum_vacuum_scale_factor": 0.05,
        "autovacuum_vacuum_insert_scale_factor": 0.1,
        "autovacuum_analyze_scale_factor": 0.05,
    },
}


def _has_settings(schema_editor: BaseDatabaseSchemaEditor) -> bool:
    return store_for(schema_editor.connection).features.has_table_settings


def set_them(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Set them where there are such settings."""
    if not _has_settings(schema_editor):
        return
    for table, settings in SETTINGS.items():
        given = ", ".join(f"{name} = {value}" for name, value in settings.items())
        schema_editor.execute(f"ALTER TABLE {table} SET ({given})")


def reset_them(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Go back to the server's defaults."""
    if not _has_settings(schema_editor):
        return
    for table, settings in SETTINGS.items():
        schema_editor.execute(f"ALTER TABLE {table} RESET ({', '.join(settings)})")


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0004_rules_of_consuming")]
    operations = [migrations.RunPython(set_them, reset_them)]
