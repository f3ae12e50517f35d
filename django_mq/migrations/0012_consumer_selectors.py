"""The selector of each consumer, for the operator and for workers that leave messages to better consumers."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0011_dead_letter_exchange")]
    operations = [
        migrations.AddField(
            model_name="consumer",
            name="selector",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Which messages it wants; blank = all.",
                max_length=1000,
                verbose_name="selector",
            ),
        ),
    ]
