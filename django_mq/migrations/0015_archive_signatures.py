"""Manifests say which columns their checksums cover."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0014_task_results")]
    operations = [
        migrations.AddField(
            model_name="archivebatch",
            name="signed",
            field=models.JSONField(
                blank=True,
                help_text="Columns that the checksums cover; empty for batches of before, which sign some.",
                null=True,
                verbose_name="signed",
            ),
        ),
        migrations.AlterField(
            model_name="archivebatch",
            name="state",
            field=models.PositiveSmallIntegerField(
                choices=[
                    (0, "planned"),
                    (1, "written"),
                    (2, "purged"),
                    (3, "replaced"),
                    (4, "keeping house"),
                ],
                default=0,
                verbose_name="state",
            ),
        ),
    ]
