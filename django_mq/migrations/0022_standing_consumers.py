from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0021_auto_delete_when_empty")]
    operations = [
        migrations.AlterField(
            model_name="consumer",
            name="state",
            field=models.CharField(
                choices=[
                    ("interested", "interested"),
                    ("notified", "notified"),
                    ("busy", "out of credit"),
                    ("stopping", "stopping"),
                    ("paused", "paused"),
                    ("still", "stands still"),
                ],
                default="interested",
                max_length=20,
                verbose_name="state",
            ),
        ),
    ]
