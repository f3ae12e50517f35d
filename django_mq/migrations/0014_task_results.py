"""The table of results of Django's tasks."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0013_instructions")]
    operations = [
        migrations.CreateModel(
            name="TaskResult",
            fields=[
                ("message_id", models.UUIDField(primary_key=True, serialize=False, verbose_name="message id")),
                ("successful", models.BooleanField(verbose_name="successful")),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                (
                    "record",
                    models.TextField(
                        help_text="The task as it was published, its value, its errors and its workers, as JSON.",
                        verbose_name="record",
                    ),
                ),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("last_attempted_at", models.DateTimeField(verbose_name="last attempted at")),
                ("finished_at", models.DateTimeField(verbose_name="finished at")),
                ("expires_at", models.DateTimeField(verbose_name="expires at")),
            ],
            options={
                "verbose_name": "task result",
                "verbose_name_plural": "task results",
                "db_table": "django_mq_taskresult",
                "ordering": ["-finished_at"],
                "indexes": [models.Index(fields=["expires_at"], name="django_mq_taskresult_pruning")],
            },
        ),
    ]
