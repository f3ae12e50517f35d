"""Batches: the permissions of operators."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0048_batches"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="messagebatch",
            options={
                "ordering": ["-created_at"],
                "permissions": [
                    ("close_messagebatch", "Can close a batch"),
                    ("cancel_messagebatch", "Can cancel a batch"),
                    ("redrive_messagebatch", "Can redrive the failures of a batch"),
                ],
                "verbose_name": "batch",
                "verbose_name_plural": "batches",
            },
        ),
    ]
