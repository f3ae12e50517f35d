"""The list of the past has another name."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("django_mq", "0039_tenants")]
    operations = [
        migrations.AlterModelOptions(
            name="history",
            options={
                "ordering": ["-id"],
                "verbose_name": "finished message",
                "verbose_name_plural": "finished messages",
            },
        )
    ]
