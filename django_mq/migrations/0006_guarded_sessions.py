"""Sessions whose end the database notices by itself."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0005_table_settings")]
    operations = [
        migrations.AddField(
            model_name="workersession",
            name="guarded",
            # A default of the database's own: workers of the version before go on inserting rows.
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="The database notices when the worker's connection ends.",
                verbose_name="guarded",
            ),
        ),
    ]
