"""Alerts, and what targets are told of them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0033_staged"),
    ]

    operations = [
        migrations.CreateModel(
            name="RecordedAlert",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("cause", models.CharField(max_length=20, verbose_name="cause")),
                ("about", models.CharField(blank=True, default="", max_length=255, verbose_name="about")),
                (
                    "level",
                    models.CharField(
                        choices=[("notice", "notice"), ("problem", "problem")], max_length=10, verbose_name="level"
                    ),
                ),
                ("sentence", models.TextField(verbose_name="sentence")),
                ("began_at", models.DateTimeField(verbose_name="since")),
                ("seen_at", models.DateTimeField(verbose_name="last found")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="until")),
                ("standing", models.UUIDField(blank=True, editable=False, null=True, unique=True)),
            ],
            options={
                "verbose_name": "alert",
                "verbose_name_plural": "alerts",
                "db_table": "django_mq_alert",
                "ordering": ["-id"],
                "indexes": [models.Index(models.F("ended_at"), name="django_mq_alert_ended")],
            },
        ),
        migrations.CreateModel(
            name="AlertNotice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("target", models.CharField(max_length=100, verbose_name="target")),
                (
                    "news",
                    models.CharField(
                        choices=[("began", "began"), ("over", "over")], max_length=10, verbose_name="news"
                    ),
                ),
                ("tries", models.PositiveIntegerField(default=0, verbose_name="tries")),
                ("next_at", models.DateTimeField(blank=True, null=True, verbose_name="next try")),
                ("sent_at", models.DateTimeField(blank=True, null=True, verbose_name="sent")),
                ("error", models.CharField(blank=True, default="", max_length=200, verbose_name="error")),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="django_mq.recordedalert",
                        verbose_name="alert",
                    ),
                ),
            ],
            options={
                "verbose_name": "alert sent",
                "verbose_name_plural": "alerts sent",
                "db_table": "django_mq_alertnotice",
                "ordering": ["id"],
                "indexes": [models.Index(models.F("next_at"), models.F("id"), name="django_mq_alertnotice_next")],
                "constraints": [
                    models.UniqueConstraint(fields=("alert", "target", "news"), name="django_mq_alertnotice_once")
                ],
            },
        ),
    ]
