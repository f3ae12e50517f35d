"""Bindings get selectors, and exchanges may have the type of AMQP's headers exchanges."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0002_whole_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="binding",
            name="selector",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Which messages, for example region = 'eu' AND size < 10. Blank for all.",
                max_length=1000,
                verbose_name="selector",
            ),
        ),
        migrations.AlterField(
            model_name="binding",
            name="exchange_type",
            field=models.CharField(
                choices=[("direct", "direct"), ("topic", "topic"), ("fanout", "fanout"), ("headers", "headers")],
                max_length=10,
                verbose_name="exchange type",
            ),
        ),
        migrations.AlterField(
            model_name="binding",
            name="pattern",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Ignored by a fanout or headers exchange.",
                max_length=200,
                verbose_name="pattern",
            ),
        ),
    ]
