from django.db import migrations, models

from django_mq.models.times import UTCDateTimeField


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0022_standing_consumers")]
    operations = [
        migrations.AddField("message", "told_to", models.CharField(editable=False, max_length=255, null=True)),
        migrations.AlterField("taskresult", "started_at", UTCDateTimeField(null=True, verbose_name="started at")),
        migrations.AlterField(
            "taskresult", "last_attempted_at", UTCDateTimeField(null=True, verbose_name="last attempted at")
        ),
    ]
