"""A column of JSON for the options of a queue that SQL does not read.

Null where no such option differs from its default, so that the version before goes on inserting queues. The other
changes are of texts and bounds, and reach no database.
"""

from __future__ import annotations

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mq", "0016_redeliveries"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="other_options",
            field=models.JSONField(blank=True, editable=False, null=True, verbose_name="other options"),
        ),
        migrations.AlterField(
            model_name="queue",
            name="backoff_cap_seconds",
            field=models.FloatField(
                default=600.0,
                help_text="Longest delay.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="backoff cap seconds",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="backoff_jitter",
            field=models.FloatField(
                default=0.1,
                help_text="Share of the delay that is drawn at random, 0 to 1.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(1),
                ],
                verbose_name="backoff jitter",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="backoff_multiplier",
            field=models.FloatField(
                default=2.0,
                help_text="Factor from one delay to the next.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000),
                ],
                verbose_name="backoff multiplier",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="backoff_seconds",
            field=models.FloatField(
                default=1.0,
                help_text="Delay before the second delivery.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="backoff seconds",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="dedup_count",
            field=models.PositiveIntegerField(
                db_default=20000,
                default=20000,
                help_text="How many duplicate ids are remembered at least; 0 = none.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(2147483647),
                ],
                verbose_name="duplicate ids",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="dedup_seconds",
            field=models.FloatField(
                blank=True,
                help_text="How long a duplicate id is remembered at most.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="duplicate ids in seconds",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="due_order",
            field=models.CharField(
                choices=[("due_first", "due messages first"), ("keep_place", "keep place of arrival")],
                default="due_first",
                help_text=(
                    "Where a message stands whose time has come: at the head of its level, or where it arrived."
                ),
                max_length=20,
                verbose_name="due order",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="history_body",
            field=models.BooleanField(
                default=False, help_text="Whether the history keeps bodies.", verbose_name="keep bodies in history"
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="history_days",
            field=models.FloatField(
                default=7.0,
                help_text="How long finished messages are remembered; 0 = not at all.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(300000),
                ],
                verbose_name="days of history",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="kind",
            field=models.CharField(
                choices=[
                    ("priority", "priority"),
                    ("fifo", "first in, first out"),
                    ("last_value", "last value of each key"),
                ],
                default="priority",
                help_text=(
                    "Order of the queue. Messages that are already there keep their level; change their "
                    "priority or move them to place them anew."
                ),
                max_length=20,
                verbose_name="kind",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="levels",
            field=models.PositiveSmallIntegerField(
                default=10,
                help_text=(
                    "Priority lists of a priority queue, 1 to 10; a first-in-first-out queue ignores it. "
                    "Another number places new messages only."
                ),
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(10),
                ],
                verbose_name="levels",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_attempts",
            field=models.PositiveIntegerField(
                default=10,
                help_text="Failed deliveries after which a message is dead-lettered; 0 = never.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(2147483647),
                ],
                verbose_name="maximum attempts",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most bytes of bodies held, whatever the state of their messages.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(9223372036854775807),
                ],
                verbose_name="maximum bytes",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_consumers",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most workers that receive; the others stand by.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(2147483647),
                ],
                verbose_name="most consumers",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most messages claimed at once, over all workers.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(2147483647),
                ],
                verbose_name="most in flight",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_messages",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most messages held, whatever their state.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(9223372036854775807),
                ],
                verbose_name="maximum messages",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="max_ttl_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A longer one, or none, is cut to this.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="longest time to live in seconds",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="min_ttl_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A shorter one is prolonged.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="shortest time to live in seconds",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="overflow",
            field=models.CharField(
                choices=[
                    ("reject", "refuse the new message"),
                    ("ring", "replace the oldest"),
                    ("drop", "drop the new message"),
                    ("flow", "let the publisher wait"),
                ],
                db_default="reject",
                default="reject",
                help_text="What to do when the queue is full.",
                max_length=10,
                verbose_name="overflow",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="ttl_seconds",
            field=models.FloatField(
                blank=True,
                help_text="Given to messages published without one.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="time to live in seconds",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="wait_seconds",
            field=models.FloatField(
                db_default=5.0,
                default=5.0,
                help_text="How long a publisher waits, if it is let wait, before it is refused.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(3153600000),
                ],
                verbose_name="wait for room in seconds",
            ),
        ),
    ]
