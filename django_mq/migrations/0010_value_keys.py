"""The value by which a last-value queue tells a message.

A migration of its own, with nothing else in its transaction: adding a column that may be null takes an
instant, and for that instant nobody else may hold the table of messages.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0009_operations")]
    operations = [
        migrations.AddField(
            model_name="message",
            name="value_key",
            field=models.CharField(
                blank=True,
                help_text="What a last-value queue tells it by.",
                max_length=255,
                null=True,
                verbose_name="value key",
            ),
        ),
    ]
