"""The table of summed-up minutes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0007_pipeline"),
    ]

    operations = [
        migrations.CreateModel(
            name="Rollup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", models.DateTimeField(verbose_name="minute")),
                ("queue_name", models.CharField(blank=True, max_length=200, verbose_name="queue")),
                ("arrived", models.PositiveIntegerField(default=0, verbose_name="arrived")),
                ("accepted", models.PositiveIntegerField(default=0, verbose_name="accepted")),
                ("expired", models.PositiveIntegerField(default=0, verbose_name="expired")),
                ("removed", models.PositiveIntegerField(default=0, verbose_name="cancelled or purged")),
                ("failed", models.PositiveIntegerField(default=0, verbose_name="failed attempts")),
                ("wait_p50", models.FloatField(null=True, verbose_name="median wait")),
                ("wait_p95", models.FloatField(null=True, verbose_name="95th percentile of the wait")),
                ("run_p50", models.FloatField(null=True, verbose_name="median run")),
                ("run_p95", models.FloatField(null=True, verbose_name="95th percentile of the run")),
                (
                    "newest",
                    models.BigIntegerField(
                        help_text="Highest message id when the minute was summed up.",
                        null=True,
                        verbose_name="newest message",
                    ),
                ),
            ],
            options={
                "verbose_name": "minute",
                "verbose_name_plural": "minutes",
                "db_table": "django_mq_rollup",
                "ordering": ["-minute", "queue_name"],
                "constraints": [
                    models.UniqueConstraint(fields=("minute", "queue_name"), name="django_mq_rollup_once")
                ],
            },
        ),
    ]
