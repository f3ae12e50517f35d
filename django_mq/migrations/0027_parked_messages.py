"""Messages may be parked: out of the way of claims, until their key is freed or a time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

MESSAGES = "django_mq_message"
#: Index to its columns where there are no partial indexes. Rows that are not parked have nulls there. Those that
#: expire need none: ``expiring`` begins with the state.
WHOLE = {
    "django_mq_message_parked": "queue_id, park_key, level DESC, place, id",
    "django_mq_message_waking": "queue_id, parked_until",
    "django_mq_message_ending": "",
}


class AddIndex(migrations.AddIndex):
    """Add a partial index, or one with columns that do the same work."""

    def database_forwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        columns = WHOLE[self.index.name]
        if schema_editor.connection.features.supports_partial_indexes:
            super().database_forwards(app_label, schema_editor, *states)
        elif columns:
            schema_editor.execute(f"CREATE INDEX {self.index.name} ON {MESSAGES} ({columns})")

    def database_backwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        if schema_editor.connection.features.supports_partial_indexes:
            super().database_backwards(app_label, schema_editor, *states)
        elif WHOLE[self.index.name]:
            schema_editor.execute(f"DROP INDEX {self.index.name} ON {MESSAGES}")


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0026_unique_keys")]
    operations = [
        migrations.AlterField(
            "message",
            "state",
            models.PositiveSmallIntegerField(
                choices=[(0, "scheduled"), (1, "ready"), (2, "claimed"), (3, "dead"), (7, "parked")],
                verbose_name="state",
            ),
        ),
        migrations.AddField(
            "message",
            "park_key",
            models.CharField(
                blank=True,
                help_text="The key that lets a parked message go on when it is freed.",
                max_length=255,
                null=True,
                verbose_name="parked for",
            ),
        ),
        migrations.AddField(
            "message", "parked_until", UTCDateTimeField(blank=True, null=True, verbose_name="parked until")
        ),
        AddIndex(
            "message",
            models.Index(
                models.F("queue"),
                models.F("park_key"),
                models.OrderBy(models.F("level"), descending=True),
                models.F("place"),
                models.F("id"),
                name="django_mq_message_parked",
                condition=models.Q(("state", 7)),
            ),
        ),
        AddIndex(
            "message",
            models.Index(
                models.F("queue"),
                models.F("parked_until"),
                name="django_mq_message_waking",
                condition=models.Q(("parked_until__isnull", False), ("state", 7)),
            ),
        ),
        AddIndex(
            "message",
            models.Index(
                models.F("expires_at"),
                name="django_mq_message_ending",
                condition=models.Q(("expires_at__isnull", False), ("state", 7)),
            ),
        ),
    ]
