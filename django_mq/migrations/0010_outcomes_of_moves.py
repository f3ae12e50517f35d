"""The history gets outcomes for messages that went on to another queue; the column stays as it is."""

from django.db import migrations, models

OUTCOMES = [
    (1, "accepted"),
    (2, "expired"),
    (3, "cancelled"),
    (4, "purged"),
    (5, "replaced"),
    (6, "sent to the dead-letter queue"),
    (7, "moved to another queue"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0009_balanced_groups"),
    ]

    operations = [
        migrations.AlterField(
            model_name="history",
            name="outcome",
            field=models.PositiveSmallIntegerField(choices=OUTCOMES, verbose_name="outcome"),
        ),
    ]
