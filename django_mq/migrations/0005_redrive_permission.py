"""The permission to redrive dead letters has the name of the action; users and groups that have it keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps as installed
from django.db import migrations

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

OLD = ("retry_message", "Can retry a dead message")
NEW = ("redrive_message", "Can redrive a dead letter")


def rename(schema_editor: BaseDatabaseSchemaEditor, before: tuple[str, str], after: tuple[str, str]) -> None:
    """Rename the permission where the database has Django's table of permissions."""
    if not installed.is_installed("django.contrib.auth"):
        return
    permission: Any = installed.get_model("auth", "Permission")
    with schema_editor.connection.cursor() as cursor:
        tables = schema_editor.connection.introspection.table_names(cursor)
    if permission._meta.db_table in tables:
        rows = permission.objects.using(schema_editor.connection.alias)
        found = rows.filter(content_type__app_label="django_mq", codename=before[0])
        found.update(codename=after[0], name=after[1])


def forwards(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    rename(schema_editor, OLD, NEW)


def backwards(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    rename(schema_editor, NEW, OLD)


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0004_idle_sessions")]
    operations = [
        migrations.AlterModelOptions(
            name="message",
            options={
                "ordering": ["-id"],
                "permissions": [
                    ("release_message", "Can release a claimed message"),
                    ("move_message", "Can move a message to another queue"),
                    ("cancel_message", "Can cancel a message"),
                    ("deliver_message_now", "Can deliver a scheduled message now"),
                    ("reschedule_message", "Can give a message another time to be delivered"),
                    ("prioritise_message", "Can change the priority of a message"),
                    NEW,
                ],
                "verbose_name": "message",
                "verbose_name_plural": "messages",
            },
        ),
        migrations.RunPython(forwards, backwards),
    ]
