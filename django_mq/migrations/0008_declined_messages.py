"""The table of messages that worker sessions have declined."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0007_sorted_queues")]
    operations = [
        migrations.CreateModel(
            name="DeclinedMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_id", models.BigIntegerField(verbose_name="queue")),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("session_id", models.BigIntegerField(verbose_name="worker session")),
                ("declined_at", models.DateTimeField(verbose_name="declined at")),
            ],
            options={
                "verbose_name": "declined message",
                "verbose_name_plural": "declined messages",
                "db_table": "django_mq_declined",
                "indexes": [
                    models.Index(fields=["queue_id", "message_id"], name="django_mq_declined_message"),
                    models.Index(fields=["session_id"], name="django_mq_declined_session"),
                ],
            },
        ),
    ]
