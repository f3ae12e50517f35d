"""Indexes that MariaDB lacks: Django leaves out those that are written as expressions, also of plain columns.

The second migration makes those of the first tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: Index to its table and columns.
MORE = {
    "django_mq_run_session": ("django_mq_run", "session_id"),
    "django_mq_run_message": ("django_mq_run", "message_id"),
    "django_mq_periodic_look": ("django_mq_periodic", "look_at"),
    "django_mq_periodicrun_message": ("django_mq_periodicrun", "message_id"),
    "django_mq_periodicrun_last": ("django_mq_periodicrun", "periodic_id, outcome, ended_at"),
    "django_mq_limithold_queue": ("django_mq_limithold", "queue_name, held_until"),
    "django_mq_limitslot_queue": ("django_mq_limitslot", "queue_name"),
    "django_mq_failuregroup_last": ("django_mq_failuregroup", "last_at"),
    "django_mq_failuretally_prune": ("django_mq_failuretally", "begins_at"),
    "django_mq_grouped_group": ("django_mq_groupedfailure", "group_id, attempt_id"),
    "django_mq_staged_outcome": ("django_mq_stagedmessage", "redrive_id, outcome, id"),
    "django_mq_staged_message": ("django_mq_stagedmessage", "message_id"),
    "django_mq_staged_corr": ("django_mq_stagedmessage", "correlation_id"),
    "django_mq_alert_ended": ("django_mq_alert", "ended_at"),
    "django_mq_alertnotice_next": ("django_mq_alertnotice", "next_at, id"),
}


def make_more(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make those that are not there."""
    connection = schema_editor.connection
    if connection.features.supports_partial_indexes:
        return
    for name, (table, columns) in MORE.items():
        with connection.cursor() as cursor:
            is_there = name in connection.introspection.get_constraints(cursor, table)
        if not is_there:
            schema_editor.execute(f"CREATE INDEX {name} ON {table} ({columns})")


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0035_limit_of_a_whole_queue")]
    operations = [
        # MariaDB and MySQL commit at every change of a table: inside a transaction Django refuses them.
        migrations.RunPython(make_more, migrations.RunPython.noop, atomic=False),
    ]
