"""What a worker session is told to do, and what it says of its slots and its memory."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0012_rescheduling"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="workersession",
            options={
                "ordering": ["-id"],
                "permissions": [
                    ("quiet_workersession", "Can tell a worker to claim no more, or to go on"),
                    ("stop_workersession", "Can tell a worker to end"),
                    ("limit_workersession", "Can change the credit of a worker"),
                ],
                "verbose_name": "worker session",
                "verbose_name_plural": "worker sessions",
            },
        ),
        migrations.AddField(
            model_name="workersession",
            name="busy",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Messages being handled at the last heartbeat.",
                null=True,
                verbose_name="busy",
            ),
        ),
        migrations.AddField(
            model_name="workersession",
            name="conduct",
            field=models.CharField(
                choices=[("work", "work"), ("quiet", "be quiet"), ("stop", "stop")],
                db_default="work",
                default="work",
                help_text="What an operator has told it to do, as long as this session lasts.",
                max_length=10,
                verbose_name="told to",
            ),
        ),
        migrations.AddField(
            model_name="workersession",
            name="given_credit",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Credit an operator has given to each of its consumers; empty = their own.",
                null=True,
                verbose_name="credit given",
            ),
        ),
        migrations.AddField(
            model_name="workersession",
            name="memory_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="What the process takes; a pool's other processes are not counted.",
                null=True,
                verbose_name="memory",
            ),
        ),
        migrations.AddField(
            model_name="workersession",
            name="slots",
            field=models.PositiveIntegerField(
                blank=True, help_text="Messages that it can handle at a time.", null=True, verbose_name="slots"
            ),
        ),
        migrations.AlterField(
            model_name="consumer",
            name="state",
            field=models.CharField(
                choices=[
                    ("interested", "interested"),
                    ("notified", "notified"),
                    ("busy", "out of credit"),
                    ("stopping", "stopping"),
                ],
                default="interested",
                max_length=20,
                verbose_name="state",
            ),
        ),
    ]
