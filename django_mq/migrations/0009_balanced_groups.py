"""Groups may be balanced over the workers, and freed from them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0008_declined_messages"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="queue",
            options={
                "ordering": ["name"],
                "permissions": [
                    ("pause_queue", "Can pause and resume a queue"),
                    ("purge_queue", "Can purge a queue"),
                    ("free_groups_queue", "Can free the groups of a queue from their workers"),
                ],
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
            },
        ),
        migrations.AlterField(
            model_name="queue",
            name="grouping",
            field=models.CharField(
                choices=[
                    ("none", "none"),
                    ("assigned", "assigned to a worker"),
                    ("balanced", "assigned, with a share for new workers"),
                    ("shared", "shared by all workers"),
                    ("sole", "all to one worker"),
                ],
                db_column="group_rule",
                db_default="none",
                default="none",
                help_text=(
                    "Which workers get the messages of a group. Messages of one group are delivered one at a time."
                ),
                max_length=10,
                verbose_name="grouping",
            ),
        ),
    ]
