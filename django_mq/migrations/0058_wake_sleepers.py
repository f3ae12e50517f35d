"""Durable handlers that sleep can be woken: the state of a record, and the permission."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0057_chord_rosters"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="durablestep",
            options={
                "ordering": ["place"],
                "permissions": [("wake_durablestep", "Can wake durable handlers that sleep")],
                "verbose_name": "step of a durable handler",
                "verbose_name_plural": "steps of durable handlers",
            },
        ),
        migrations.AlterField(
            model_name="durablestep",
            name="outcome",
            field=models.CharField(
                choices=[
                    ("open", "waits"),
                    ("done", "done"),
                    ("woken", "ended early"),
                    ("timed_out", "timed out"),
                ],
                max_length=10,
                verbose_name="state",
            ),
        ),
    ]
