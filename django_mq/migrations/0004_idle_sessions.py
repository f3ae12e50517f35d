"""The table of the idle sessions that PostgreSQL notifies: docs/decisions/0025.

It has no model: only the notifier uses it. It is unlogged, so that a session that goes to sleep need not wait for
a disk. A server that crashes empties it, and ends the connections of all sessions in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations

from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

TABLE = """
CREATE UNLOGGED TABLE django_mq_idle (
    session text PRIMARY KEY,
    channel text NOT NULL,
    liveness_lock integer NOT NULL,
    queues text[] NOT NULL,
    priority integer NOT NULL,
    since timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)
"""
INDEX = "CREATE INDEX django_mq_idle_expires ON django_mq_idle (expires_at)"


def create(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Create the table where the database carries hints."""
    if store_for(schema_editor.connection).features.carries_hints:
        schema_editor.execute(TABLE)
        schema_editor.execute(INDEX)


def drop(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Drop it."""
    if store_for(schema_editor.connection).features.carries_hints:
        schema_editor.execute("DROP TABLE django_mq_idle")


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0003_binding_selectors")]
    operations = [migrations.RunPython(create, drop)]
