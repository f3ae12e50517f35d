"""Queues may declare selectors, and an index says which one matches a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class AddPartialIndex(migrations.AddIndex):
    """Add an index where a database can leave out the messages of other queues, which it would slow down."""

    def database_forwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        if schema_editor.connection.features.supports_partial_indexes:
            super().database_forwards(app_label, schema_editor, *states)

    def database_backwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        if schema_editor.connection.features.supports_partial_indexes:
            super().database_backwards(app_label, schema_editor, *states)


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0012_consumer_selectors")]
    operations = [
        migrations.AddField(
            model_name="queue",
            name="selectors",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Selectors of handlers, one in each line. A claim by one of them is quick behind any "
                "number of messages that do not match.",
                max_length=2000,
                verbose_name="selectors",
            ),
        ),
        migrations.AddField(
            model_name="queue", name="declared", field=models.BigIntegerField(editable=False, null=True)
        ),
        migrations.AddField(
            model_name="queue",
            name="covered",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="message", name="meets", field=models.BigIntegerField(editable=False, null=True)
        ),
        AddPartialIndex(
            model_name="message",
            index=models.Index(
                models.F("queue"),
                models.F("meets"),
                models.OrderBy(models.F("level"), descending=True),
                models.F("place"),
                models.F("id"),
                name="django_mq_message_meets",
                condition=models.Q(("meets__isnull", False), ("state", 1)),
            ),
        ),
    ]
