from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0019_dead_letter_exchange_takes_all")]
    operations = [
        migrations.AddField(
            model_name="archivebatch",
            name="fault",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="What mq_spark verify found, if it found damage.",
                verbose_name="fault",
            ),
        ),
        migrations.AddField(
            model_name="archivebatch",
            name="files",
            field=models.JSONField(
                blank=True,
                help_text="The size of each file; empty for older batches.",
                null=True,
                verbose_name="files",
            ),
        ),
    ]
