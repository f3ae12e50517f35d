"""A dead-letter exchange also takes what expires and what a ring replaces: another help text, and no statement."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0018_released_messages")]
    operations = [
        migrations.AlterField(
            model_name="queue",
            name="dead_letter_exchange",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text=(
                    "The exchange that takes what is rejected, expires, or is replaced by a newer message, "
                    "instead of a dead-letter queue and an expiry queue. What no queue takes stays in this queue "
                    "as dead."
                ),
                max_length=200,
                verbose_name="dead-letter exchange",
            ),
        ),
    ]
