"""Batches: when their members were compared with the queues, and what was missing."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0049_batch_permissions"),
    ]

    operations = [
        migrations.AddField("messagebatch", "checked_at", models.DateTimeField(null=True)),
        migrations.AddField("messagebatch", "checked_to", models.UUIDField(null=True)),
        migrations.AddField("messagebatch", "vanished", models.PositiveIntegerField(null=True)),
        migrations.AddField("messagebatch", "vanished_at", models.DateTimeField(null=True)),
        migrations.AddField("batchmember", "missing_at", models.DateTimeField(null=True)),
        migrations.AddIndex("messagebatch", models.Index(fields=["vanished_at"], name="django_mq_batch_vanished")),
    ]
