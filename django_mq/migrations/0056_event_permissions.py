"""Events of durable handlers: the permissions of operators."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0055_receivers"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="durableevent",
            options={
                "ordering": ["-id"],
                "permissions": [("emit_durableevent", "Can emit events of durable handlers")],
                "verbose_name": "event of durable handlers",
                "verbose_name_plural": "events of durable handlers",
            },
        ),
    ]
