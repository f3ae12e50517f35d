"""A permission to reschedule messages."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0011_live_indexes")]
    operations = [
        migrations.AlterModelOptions(
            name="message",
            options={
                "ordering": ["-id"],
                "permissions": [
                    ("release_message", "Can release a claimed message"),
                    ("move_message", "Can move a message to another queue"),
                    ("cancel_message", "Can cancel a message"),
                    ("deliver_message_now", "Can deliver a scheduled message now"),
                    ("reschedule_message", "Can give a message another time to be delivered"),
                    ("prioritise_message", "Can change the priority of a message"),
                    ("retry_message", "Can retry a dead message"),
                ],
                "verbose_name": "message",
                "verbose_name_plural": "messages",
            },
        ),
    ]
