"""What workers handle, which requests to stop reach them, and the permission to stop it."""

from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0023_told_to")]
    operations = [
        migrations.AlterModelOptions(
            name="message",
            options={
                "ordering": ["-id"],
                "permissions": [
                    ("release_message", "Can release a claimed message"),
                    ("move_message", "Can move a message to another queue"),
                    ("cancel_message", "Can cancel a message"),
                    ("stop_message", "Can stop a message that a worker handles"),
                    ("deliver_message_now", "Can deliver a scheduled message now"),
                    ("reschedule_message", "Can give a message another time to be delivered"),
                    ("prioritise_message", "Can change the priority of a message"),
                    ("redrive_message", "Can redrive a dead letter"),
                ],
                "verbose_name": "message",
                "verbose_name_plural": "messages",
            },
        ),
        migrations.AddField(
            "workersession",
            "running",
            models.JSONField(
                blank=True,
                help_text="Messages being handled at the last heartbeat, at most 100, those that run for longest.",
                null=True,
                verbose_name="what runs",
            ),
        ),
        migrations.CreateModel(
            name="StopRequest",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session_id", models.BigIntegerField(verbose_name="worker session")),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("claim", models.BigIntegerField(verbose_name="claim")),
                ("asked_at", UTCDateTimeField(verbose_name="asked at")),
            ],
            options={
                "verbose_name": "request to stop",
                "verbose_name_plural": "requests to stop",
                "db_table": "django_mq_stoprequest",
                "indexes": [models.Index(fields=["session_id"], name="django_mq_stop_session")],
            },
        ),
    ]
