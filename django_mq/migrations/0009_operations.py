"""The table of operations in the background."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0008_rollup"),
    ]

    operations = [
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("act", models.CharField(max_length=40, verbose_name="act")),
                ("filters", models.JSONField(default=dict, verbose_name="filters")),
                ("answers", models.JSONField(default=dict, verbose_name="answers")),
                ("user_name", models.CharField(max_length=255, verbose_name="started by")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("running", "running"),
                            ("done", "done"),
                            ("stopped", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="running",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                (
                    "expected",
                    models.PositiveBigIntegerField(
                        default=0,
                        help_text="Messages that matched when it began, counted up to a limit.",
                        verbose_name="expected",
                    ),
                ),
                ("tried", models.PositiveBigIntegerField(default=0, verbose_name="tried")),
                ("changed", models.PositiveBigIntegerField(default=0, verbose_name="changed")),
                ("cursor", models.BigIntegerField(default=0, verbose_name="last message tried")),
                ("newest", models.BigIntegerField(verbose_name="newest message when it began")),
                ("error", models.TextField(blank=True, default="", verbose_name="error")),
                ("runner", models.UUIDField(blank=True, null=True, verbose_name="runner")),
                ("created_at", models.DateTimeField(verbose_name="started")),
                ("beat_at", models.DateTimeField(verbose_name="last progress")),
            ],
            options={
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
                "db_table": "django_mq_operation",
                "ordering": ["-id"],
            },
        ),
    ]
