"""Search keys, and an index of the history by correlation id: the id of a Celery task leads to its page later.

PostgreSQL makes the index without keeping workers from writing history meanwhile, which takes no transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class AddIndexBesideWriters(migrations.AddIndex):
    """Add an index, concurrently where the database can."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        if not hasattr(schema_editor, "sql_create_index_concurrently"):
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.add_index(model, self.index, concurrently=True)  # type: ignore[call-arg] # PostgreSQL's


#: See 0002_whole_indexes.
SPELT = "ALTER TABLE django_mq_searchkey CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def spell(_: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let MariaDB and MySQL tell "Acme" and "acme" apart."""
    if not schema_editor.connection.features.supports_partial_indexes:
        schema_editor.execute(SPELT)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("django_mq", "0030_runs_of_unique_tasks")]
    operations = [
        migrations.CreateModel(
            name="SearchKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("value", models.CharField(max_length=255, verbose_name="value")),
            ],
            options={
                "verbose_name": "search key",
                "verbose_name_plural": "search keys",
                "db_table": "django_mq_searchkey",
                "indexes": [
                    models.Index(fields=["value", "id"], name="django_mq_searchkey_value"),
                    models.Index(fields=["message_id"], name="django_mq_searchkey_message"),
                ],
            },
        ),
        migrations.RunPython(spell, migrations.RunPython.noop, atomic=False),
        AddIndexBesideWriters(
            "history",
            models.Index(
                fields=["correlation_id"],
                name="django_mq_history_corr",
                condition=models.Q(correlation_id__isnull=False),
            ),
        ),
    ]
