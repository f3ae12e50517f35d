from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0015_paused_consumers")]
    operations = [
        migrations.AddField(
            model_name="attempt",
            name="error_path",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=255, verbose_name="exception"
            ),
        ),
    ]
