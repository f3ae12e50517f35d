"""What is finished says whether it had been delivered before, and minutes count such deliveries.

A failed attempt says what type its message had.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0015_archive_signatures")]
    operations = [
        # Null where nobody has said so: no database has to write the rows that are there anew.
        migrations.AddField(
            model_name="history",
            name="redelivered",
            field=models.BooleanField(
                blank=True,
                help_text="Whether its last delivery was not its first.",
                null=True,
                verbose_name="redelivered",
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="type",
            field=models.CharField(blank=True, db_default="", default="", max_length=255, verbose_name="type"),
        ),
        migrations.AddField(
            model_name="rollup",
            name="redelivered",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Deliveries that ended, of messages that had been delivered before.",
                verbose_name="redelivered",
            ),
        ),
    ]
