"""What a claim needs to read only the keys whose time has come: of those that wait, and of those that are held."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0041_tiles")]

    operations = [
        migrations.AddField("limithold", "seconds", models.FloatField(editable=False, null=True)),
        migrations.AddIndex(
            "limithold",
            models.Index(fields=["queue_name", "limit_name", "limited_key"], name="django_mq_limithold_key"),
        ),
        migrations.AddIndex(
            "limitkey",
            models.Index(fields=["queue_name", "waiting_until", "id"], name="django_mq_limitkey_waiting"),
        ),
    ]
