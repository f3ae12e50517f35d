"""The key of an exception may be blank, for a limit of a whole queue. No table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0034_alerts")]

    operations = [
        migrations.AlterField(
            model_name="limitexception",
            name="limited_key",
            field=models.CharField(
                blank=True, help_text="Blank for a limit of the whole queue.", max_length=255, verbose_name="key"
            ),
        ),
    ]
