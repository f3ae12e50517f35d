"""An index of the history by correlation id: the id of a Celery task leads to its page when the task has finished.

PostgreSQL makes it without keeping workers from writing history meanwhile, which takes no transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models

if TYPE_CHECKING:
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


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("django_mq", "0030_runs_of_unique_tasks")]
    operations = [
        AddIndexBesideWriters(
            "history",
            models.Index(
                fields=["correlation_id"],
                name="django_mq_history_corr",
                condition=models.Q(correlation_id__isnull=False),
            ),
        )
    ]
