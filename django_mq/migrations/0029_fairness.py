"""The values of a header may share a queue."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0028_limits_by_key")]
    operations = [
        migrations.AddField(
            model_name="queue",
            name="fair_by",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text=(
                    "The values of this header, or of the argument with its name, share the queue: within a "
                    "level, a message waits for one message of each other value at most. Needs the due order "
                    "'keep place of arrival'."
                ),
                max_length=255,
                verbose_name="fair by",
            ),
        ),
        migrations.CreateModel(
            name="FairCounter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("level", models.PositiveSmallIntegerField()),
                ("fair_key", models.CharField(blank=True, max_length=32)),
                ("finish", models.BigIntegerField()),
                ("seen", models.BigIntegerField()),
                (
                    "queue",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="fair_counters",
                        to="django_mq.queue",
                        verbose_name="queue",
                    ),
                ),
            ],
            options={
                "db_table": "django_mq_faircounter",
                "indexes": [
                    models.Index(fields=["queue", "level", "fair_key", "id"], name="django_mq_fair_key"),
                ],
            },
        ),
    ]
