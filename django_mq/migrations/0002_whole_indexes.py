"""What the models cannot say of a database: indexes, collations and settings of its tables.

MariaDB and MySQL have no partial indexes: Django makes them over all rows, and MariaDB gets
none at all of those that are written as expressions. Here each is made under its name with the
columns that do the same work: the state stands where the condition was.

PostgreSQL is told when to vacuum and analyze. The defaults wait until a fifth of a table has changed. Every
message is a row that is written, changed and deleted, so with a backlog of millions that is far too late. A
site may change these settings again. Why each is as it is: docs/how-to/databases/big-tables.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations

from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

MESSAGES = "django_mq_message"
#: Index to its table and columns. One for the dead is not needed: ``ready`` begins with queue and state.
WHOLE = {
    "django_mq_message_ready": (MESSAGES, "queue_id, state, level DESC, place, id"),
    "django_mq_message_due": (MESSAGES, "queue_id, state, deliver_at"),
    "django_mq_message_claimed": (MESSAGES, "session_id"),
    "django_mq_message_expiring": (MESSAGES, "state, expires_at"),
    "django_mq_message_corr": (MESSAGES, "correlation_id"),
    "django_mq_message_value": (MESSAGES, "queue_id, value_key"),
    "django_mq_message_retrying": (MESSAGES, "redelivered, state, queue_id, group_key"),
    "django_mq_history_pruning": ("django_mq_history", "finished_at"),
    "django_mq_history_message": ("django_mq_history", "message_id"),
    "django_mq_attempt_message": ("django_mq_attempt", "message_id"),
    "django_mq_attempt_corr": ("django_mq_attempt", "correlation_id"),
    "django_mq_attempt_pruning": ("django_mq_attempt", "failed_at"),
    "django_mq_session_deadline": ("django_mq_workersession", "deadline"),
    "django_mq_volatile_queue": ("django_mq_volatilemessage", "queue_name, id"),
}
UNIQUE = {"django_mq_message_once": (MESSAGES, "message_id, queue_id")}
#: Made by MySQL, which knows expressions, and of no use there.
NEEDLESS = {"django_mq_message_dead": MESSAGES}
#: Their usual collations take "Orders" and "orders" for one name, and not every character.
SPELT = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
#: Models whose tables keep the collation of the database.
NOT_SPELT = {"operation", "rollup", "taskresult"}

#: Table to its settings on PostgreSQL.
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


def make_whole(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make the indexes, in the place of what Django has made under their names."""
    if schema_editor.connection.features.supports_partial_indexes:
        return
    for model in apps.get_app_config("django_mq").get_models():
        if model._meta.model_name not in NOT_SPELT:
            schema_editor.execute(SPELT.format(table=model._meta.db_table))
    made = {**WHOLE, **UNIQUE, **{name: (table, "") for name, table in NEEDLESS.items()}}
    for name, (table, columns) in made.items():
        if name in _indexes(schema_editor, table):
            schema_editor.execute(f"DROP INDEX {name} ON {table}")
        if columns:
            kind = "UNIQUE INDEX" if name in UNIQUE else "INDEX"
            schema_editor.execute(f"CREATE {kind} {name} ON {table} ({columns})")


def _indexes(schema_editor: BaseDatabaseSchemaEditor, table: str) -> set[str]:
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        return set(connection.introspection.get_constraints(cursor, table))


def set_tables(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Set the tables' settings where there are such settings."""
    if store_for(schema_editor.connection).features.has_table_settings:
        for table, settings in SETTINGS.items():
            given = ", ".join(f"{name} = {value}" for name, value in settings.items())
            schema_editor.execute(f"ALTER TABLE {table} SET ({given})")


class Migration(migrations.Migration):
    # Named as before 0001 was squashed: a database with only some of the replaced migrations is refused.
    dependencies = [("django_mq", "0001_initial")]
    operations = [
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(make_whole, migrations.RunPython.noop, atomic=False),
        migrations.RunPython(set_tables, migrations.RunPython.noop),
    ]
