"""Dead letters may be published to an exchange."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0010_outcomes_of_moves"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="dead_letter_exchange",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text=(
                    "The exchange that dead letters are published to, instead of a dead-letter queue. Dead "
                    "letters that no queue takes stay in this queue as dead."
                ),
                max_length=200,
                verbose_name="dead-letter exchange",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="dead_letter_routing_key",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The routing key of these dead letters; blank for the routing key of the message.",
                max_length=200,
                verbose_name="dead-letter routing key",
            ),
        ),
    ]
