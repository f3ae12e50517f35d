"""When a message came back, since when it has been waiting again."""

from django.db import migrations

from django_mq.models.times import UTCDateTimeField


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0017_exchanges")]
    operations = [
        migrations.AddField(
            model_name="message", name="released_at", field=UTCDateTimeField(editable=False, null=True)
        )
    ]
