"""Queues may be sorted by a header."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0006_queue_life"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="sort_key",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The queue delivers by the value of this header, least first. For kind fifo.",
                max_length=255,
                verbose_name="sort key",
            ),
        ),
    ]
