"""Queues may end by themselves, and may keep messages without expiry."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0005_redrive_permission"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="auto_delete",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text=(
                    "Whether the queue is deleted when the last worker that receives from it leaves. Its messages "
                    "become dead letters, or are removed if there is no dead-letter queue."
                ),
                verbose_name="auto-delete",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="expires_seconds",
            field=models.FloatField(
                blank=True,
                help_text=(
                    "How long the queue exists without a worker before it is deleted, as above. "
                    "Publishing does not count."
                ),
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="expires in seconds",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="no_expiry",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Messages never expire here, even if they are published with a time to live.",
                verbose_name="no expiry",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="used_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="used at"),
        ),
    ]
