"""A unique key asks whether the run of its message goes on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0029_fairness")]
    operations = [
        migrations.AddIndex(
            model_name="beguntask", index=models.Index("message_id", name="django_mq_run_message")
        ),
    ]
