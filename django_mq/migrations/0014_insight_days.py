from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0013_declared_selectors")]
    operations = [
        migrations.CreateModel(
            name="InsightDay",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("day", models.DateField(verbose_name="day")),
                ("wait_histogram", models.JSONField(blank=True, default=dict, verbose_name="waits")),
                ("run_histogram", models.JSONField(blank=True, default=dict, verbose_name="times held")),
            ],
            options={
                "verbose_name": "day",
                "verbose_name_plural": "days",
                "db_table": "django_mq_insightday",
                "ordering": ["-day", "queue_name"],
                "constraints": [
                    models.UniqueConstraint(fields=("queue_name", "day"), name="django_mq_insightday_once")
                ],
            },
        )
    ]
