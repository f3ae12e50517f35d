"""Auto-delete queues stay until they are empty: other help texts, and no statement."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0020_archive_files")]
    operations = [
        migrations.AlterField(
            model_name="queue",
            name="auto_delete",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text=(
                    "Whether the queue is deleted when it is empty and the last worker that receives from it has "
                    "left."
                ),
                verbose_name="auto-delete",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="expires_seconds",
            field=models.FloatField(
                blank=True,
                help_text=(
                    "How long the queue exists without a worker before it is deleted. Publishing does not count. "
                    "Its messages become dead letters, or are removed if there is no dead-letter queue."
                ),
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="expires in seconds",
            ),
        ),
    ]
