"""The keys of unique messages."""

from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField

UNTIL = [("begins", "it begins"), ("finished", "it is finished"), ("window", "its time has passed")]


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0025_periodic")]
    operations = [
        migrations.CreateModel(
            name="UniqueKey",
            fields=[
                ("digest", models.CharField(editable=False, max_length=64, primary_key=True, serialize=False)),
                ("label", models.CharField(blank=True, default="", max_length=255, verbose_name="key")),
                (
                    "until",
                    models.CharField(choices=UNTIL, max_length=20, verbose_name="until"),
                ),
                ("owner", models.CharField(max_length=255, verbose_name="publication")),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("first_at", UTCDateTimeField(verbose_name="taken at")),
                ("ends_at", UTCDateTimeField(blank=True, null=True, verbose_name="ends at")),
            ],
            options={
                "verbose_name": "unique key",
                "verbose_name_plural": "unique keys",
                "db_table": "django_mq_uniquekey",
                "permissions": [("free_uniquekey", "Can free a unique key")],
            },
        ),
    ]
