"""Indexes of the table of messages, made while publishers and workers go on.

Both are partial and hold nothing until their queues are used, but the table is read once, or twice, to
make them. PostgreSQL does that beside its writers if it is asked to, outside any transaction; so this
migration has none, and every step may be run again after it was broken off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import migrations, models

from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from typing import Any

    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.models import Model

MESSAGES = "django_mq_message"
RETRYING = "django_mq_message_retrying"


class AddLiveIndex(migrations.AddIndex):
    """Adds an index to a table in use, in the place of what an earlier attempt has left under its name."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        if self.index.name in _indexes(schema_editor):
            self._drop(model, schema_editor)
        if _is_built_apart(schema_editor):
            schema_editor.execute(self.index.create_sql(model, schema_editor, concurrently=True), params=None)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: Any,
        from_state: Any,
        to_state: Any,  # noqa: ARG002 - Django's order
    ) -> None:
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            self._drop(model, schema_editor)

    def _drop(self, model: type[Model], schema_editor: Any) -> None:
        if _is_built_apart(schema_editor):
            schema_editor.execute(self.index.remove_sql(model, schema_editor, concurrently=True))
        elif self.index.name in _indexes(schema_editor):
            schema_editor.execute(self.index.remove_sql(model, schema_editor))


def make_whole(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Do for the index of retries what 0002 does for the others, where there are no partial indexes."""
    if schema_editor.connection.features.supports_partial_indexes:
        return
    if RETRYING in _indexes(schema_editor):
        schema_editor.execute(f"DROP INDEX {RETRYING} ON {MESSAGES}")
    schema_editor.execute(f"CREATE INDEX {RETRYING} ON {MESSAGES} (redelivered, state, queue_id, group_key)")


def _is_built_apart(schema_editor: BaseDatabaseSchemaEditor) -> bool:
    return store_for(schema_editor.connection).features.builds_indexes_apart


def _indexes(schema_editor: BaseDatabaseSchemaEditor) -> set[str]:
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        return set(connection.introspection.get_constraints(cursor, MESSAGES))


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("django_mq", "0010_value_keys")]
    operations = [
        AddLiveIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("value_key__isnull", False)),
                fields=["queue", "value_key"],
                name="django_mq_message_value",
            ),
        ),
        AddLiveIndex(
            model_name="message",
            index=models.Index(
                models.F("queue"),
                models.F("group_key"),
                condition=models.Q(("group_key__isnull", False), ("redelivered", True), ("state", 0)),
                name=RETRYING,
            ),
        ),
        migrations.RunPython(make_whole, migrations.RunPython.noop),
    ]
