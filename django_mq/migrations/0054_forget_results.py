from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0053_progress"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="storedresult",
            options={
                "ordering": ["-id"],
                "permissions": [("forget_storedresult", "Can forget results")],
                "verbose_name": "result",
                "verbose_name_plural": "results",
            },
        ),
    ]
