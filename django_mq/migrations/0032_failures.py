"""Failures in groups, and the deploys that they follow."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0031_search"),
    ]

    operations = [
        migrations.CreateModel(
            name="Deploy",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("version", models.CharField(max_length=100, unique=True, verbose_name="version")),
                ("first_at", models.DateTimeField(verbose_name="first seen")),
            ],
            options={
                "verbose_name": "deploy",
                "verbose_name_plural": "deploys",
                "db_table": "django_mq_deploy",
                "ordering": ["-first_at", "-id"],
            },
        ),
        migrations.CreateModel(
            name="FailureGroup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("fingerprint", models.CharField(max_length=32, unique=True, verbose_name="fingerprint")),
                ("error", models.CharField(max_length=255, verbose_name="exception")),
                (
                    "error_path",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="class of the exception"
                    ),
                ),
                ("place", models.CharField(blank=True, default="", max_length=255, verbose_name="raised in")),
                ("text", models.CharField(blank=True, default="", max_length=300, verbose_name="text")),
                ("failures", models.PositiveBigIntegerField(default=0, verbose_name="failures")),
                ("first_at", models.DateTimeField(verbose_name="first seen")),
                ("last_at", models.DateTimeField(verbose_name="last seen")),
                ("queues", models.JSONField(default=dict, verbose_name="queues")),
                ("types", models.JSONField(default=dict, verbose_name="types")),
                ("workers", models.JSONField(default=dict, verbose_name="workers")),
                ("tenants", models.JSONField(default=dict, verbose_name="tenants")),
                ("versions", models.JSONField(default=dict, verbose_name="versions")),
            ],
            options={
                "verbose_name": "failure group",
                "verbose_name_plural": "failures in groups",
                "db_table": "django_mq_failuregroup",
                "ordering": ["-last_at", "-id"],
                "indexes": [models.Index(models.F("last_at"), name="django_mq_failuregroup_last")],
            },
        ),
        migrations.CreateModel(
            name="FailureTally",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("begins_at", models.DateTimeField(verbose_name="begin")),
                ("failures", models.PositiveIntegerField(default=0, verbose_name="failures")),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tallies",
                        to="django_mq.failuregroup",
                    ),
                ),
            ],
            options={
                "verbose_name": "ten minutes of a failure group",
                "verbose_name_plural": "ten minutes of failure groups",
                "db_table": "django_mq_failuretally",
                "indexes": [models.Index(models.F("begins_at"), name="django_mq_failuretally_prune")],
                "constraints": [
                    models.UniqueConstraint(fields=("group", "begins_at"), name="django_mq_failuretally_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="GroupedFailure",
            fields=[
                (
                    "attempt_id",
                    models.BigIntegerField(primary_key=True, serialize=False, verbose_name="failed attempt"),
                ),
                ("failed_at", models.DateTimeField(verbose_name="failed at")),
                ("message_id", models.UUIDField(null=True, verbose_name="message id")),
                ("correlation_id", models.CharField(max_length=255, null=True, verbose_name="correlation id")),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grouped",
                        to="django_mq.failuregroup",
                    ),
                ),
            ],
            options={
                "verbose_name": "failed attempt in a group",
                "verbose_name_plural": "failed attempts in groups",
                "db_table": "django_mq_groupedfailure",
                "indexes": [
                    models.Index(models.F("group"), models.F("attempt_id"), name="django_mq_grouped_group")
                ],
            },
        ),
    ]
