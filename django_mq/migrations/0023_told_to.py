from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0022_standing_consumers")]
    operations = [
        migrations.AddField("message", "told_to", models.CharField(editable=False, max_length=255, null=True)),
    ]
