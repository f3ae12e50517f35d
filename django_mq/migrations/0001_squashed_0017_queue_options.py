"""Create the tables. This replaces seventeen unreleased migrations: docs/how-to/operations/upgrade.md."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models

REPLACED = (
    "0001_initial",
    "0003_publish_rules",
    "0004_rules_of_consuming",
    "0005_table_settings",
    "0006_guarded_sessions",
    "0007_pipeline",
    "0008_rollup",
    "0009_operations",
    "0010_value_keys",
    "0011_live_indexes",
    "0012_rescheduling",
    "0013_instructions",
    "0014_task_results",
    "0015_archive_signatures",
    "0016_redeliveries",
    "0017_queue_options",
)


class Migration(migrations.Migration):
    replaces = [("django_mq", name) for name in REPLACED]
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("name", models.CharField(max_length=200, unique=True, verbose_name="name")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("priority", "priority"),
                            ("fifo", "first in, first out"),
                            ("last_value", "last value of each key"),
                        ],
                        default="priority",
                        help_text=(
                            "Order of the queue. A change affects new messages. To place older messages anew, "
                            "change their priority or move them."
                        ),
                        max_length=20,
                        verbose_name="kind",
                    ),
                ),
                (
                    "levels",
                    models.PositiveSmallIntegerField(
                        default=10,
                        help_text=(
                            "Number of priority lists, 1 to 10; a first-in-first-out queue has one. "
                            "A change affects new messages."
                        ),
                        validators=[MinValueValidator(1), MaxValueValidator(10)],
                        verbose_name="levels",
                    ),
                ),
                (
                    "due_order",
                    models.CharField(
                        choices=[("due_first", "due messages first"), ("keep_place", "keep place of arrival")],
                        default="due_first",
                        help_text="Where a due message stands: at the head of its level, or where it arrived.",
                        max_length=20,
                        verbose_name="due order",
                    ),
                ),
                (
                    "closed",
                    models.BooleanField(
                        default=False, help_text="A closed queue takes no more messages.", verbose_name="closed"
                    ),
                ),
                (
                    "paused",
                    models.BooleanField(
                        default=False, help_text="A paused queue delivers nothing.", verbose_name="paused"
                    ),
                ),
                (
                    "paused_reason",
                    models.CharField(blank=True, default="", max_length=200, verbose_name="pause reason"),
                ),
                ("paused_until", models.DateTimeField(blank=True, null=True, verbose_name="paused until")),
                (
                    "max_attempts",
                    models.PositiveIntegerField(
                        default=10,
                        help_text="Failed deliveries after which a message is dead-lettered; 0 = never.",
                        validators=[MinValueValidator(0), MaxValueValidator(2147483647)],
                        verbose_name="maximum attempts",
                    ),
                ),
                (
                    "backoff_seconds",
                    models.FloatField(
                        default=1.0,
                        help_text="Delay before the second delivery.",
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="backoff seconds",
                    ),
                ),
                (
                    "backoff_multiplier",
                    models.FloatField(
                        default=2.0,
                        help_text="Factor from one delay to the next.",
                        validators=[MinValueValidator(1), MaxValueValidator(1000)],
                        verbose_name="backoff multiplier",
                    ),
                ),
                (
                    "backoff_cap_seconds",
                    models.FloatField(
                        default=600.0,
                        help_text="Longest delay.",
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="backoff cap seconds",
                    ),
                ),
                (
                    "backoff_jitter",
                    models.FloatField(
                        default=0.1,
                        help_text="Share of the delay that is drawn at random, 0 to 1.",
                        validators=[MinValueValidator(0), MaxValueValidator(1)],
                        verbose_name="backoff jitter",
                    ),
                ),
                (
                    "max_messages",
                    models.PositiveBigIntegerField(
                        blank=True,
                        help_text="Most messages in the queue, in all states together.",
                        null=True,
                        validators=[MinValueValidator(1), MaxValueValidator(9223372036854775807)],
                        verbose_name="maximum messages",
                    ),
                ),
                (
                    "ttl_seconds",
                    models.FloatField(
                        blank=True,
                        help_text="Time to live of messages that are published without one.",
                        null=True,
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="time to live in seconds",
                    ),
                ),
                (
                    "history_days",
                    models.FloatField(
                        default=7.0,
                        help_text="How many days finished messages stay in the history; 0 = none.",
                        validators=[MinValueValidator(0), MaxValueValidator(300000)],
                        verbose_name="days of history",
                    ),
                ),
                (
                    "history_body",
                    models.BooleanField(
                        default=False,
                        help_text="Whether the history keeps bodies.",
                        verbose_name="keep bodies in history",
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created at")),
                (
                    "dead_letter_queue",
                    models.ForeignKey(
                        blank=True,
                        help_text=(
                            "The queue that dead letters go to; without one they stay in this queue as dead."
                        ),
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="dead_letter_sources",
                        to="django_mq.queue",
                        verbose_name="dead-letter queue",
                    ),
                ),
                ("counted_at", models.DateTimeField(editable=False, null=True, verbose_name="counted at")),
                (
                    "dedup_count",
                    models.PositiveIntegerField(
                        db_default=20000,
                        default=20000,
                        help_text="How many duplicate ids are remembered at least; 0 = none.",
                        validators=[MinValueValidator(0), MaxValueValidator(2147483647)],
                        verbose_name="duplicate ids",
                    ),
                ),
                (
                    "dedup_seconds",
                    models.FloatField(
                        blank=True,
                        help_text="How long a duplicate id is remembered at most.",
                        null=True,
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="duplicate ids in seconds",
                    ),
                ),
                (
                    "dropped",
                    models.PositiveBigIntegerField(
                        db_default=0, default=0, editable=False, verbose_name="dropped messages"
                    ),
                ),
                (
                    "expiry_queue",
                    models.ForeignKey(
                        blank=True,
                        help_text="The queue that expired messages go to; without one they are removed.",
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="expiry_sources",
                        to="django_mq.queue",
                        verbose_name="expiry queue",
                    ),
                ),
                (
                    "held_bytes",
                    models.PositiveBigIntegerField(editable=False, null=True, verbose_name="held bytes"),
                ),
                (
                    "held_messages",
                    models.PositiveBigIntegerField(editable=False, null=True, verbose_name="held messages"),
                ),
                (
                    "last_value_key",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="A last-value queue keeps one message for each value of this header.",
                        max_length=255,
                        verbose_name="key of last values",
                    ),
                ),
                (
                    "max_bytes",
                    models.PositiveBigIntegerField(
                        blank=True,
                        help_text="Most bytes of message bodies in the queue, in all states together.",
                        null=True,
                        validators=[MinValueValidator(1), MaxValueValidator(9223372036854775807)],
                        verbose_name="maximum bytes",
                    ),
                ),
                (
                    "max_ttl_seconds",
                    models.FloatField(
                        blank=True,
                        help_text="A longer time to live, or none, is reduced to this.",
                        null=True,
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="longest time to live in seconds",
                    ),
                ),
                (
                    "min_ttl_seconds",
                    models.FloatField(
                        blank=True,
                        help_text="A shorter time to live is raised to this.",
                        null=True,
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="shortest time to live in seconds",
                    ),
                ),
                (
                    "overflow",
                    models.CharField(
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
                (
                    "wait_seconds",
                    models.FloatField(
                        db_default=5.0,
                        default=5.0,
                        help_text="How long a publisher waits for room before its message is refused.",
                        validators=[MinValueValidator(0), MaxValueValidator(3153600000)],
                        verbose_name="wait for room in seconds",
                    ),
                ),
                (
                    "exclusive",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="One worker receives as long as it lives; others are refused.",
                        verbose_name="exclusive",
                    ),
                ),
                (
                    "grouping",
                    models.CharField(
                        choices=[
                            ("none", "none"),
                            ("assigned", "assigned to a worker"),
                            ("shared", "shared by all workers"),
                            ("sole", "all to one worker"),
                        ],
                        db_column="group_rule",
                        db_default="none",
                        default="none",
                        help_text=(
                            "Which workers get the messages of a group. "
                            "Messages of one group are delivered one at a time."
                        ),
                        max_length=10,
                        verbose_name="grouping",
                    ),
                ),
                (
                    "max_consumers",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="How many workers may receive at a time; the others wait.",
                        null=True,
                        validators=[MinValueValidator(1), MaxValueValidator(2147483647)],
                        verbose_name="most consumers",
                    ),
                ),
                (
                    "max_in_flight",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Most messages claimed at once, over all workers.",
                        null=True,
                        validators=[MinValueValidator(1), MaxValueValidator(2147483647)],
                        verbose_name="most in flight",
                    ),
                ),
                (
                    "strict",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text=(
                            "Claims wait for each other, and never skip a message that cannot be claimed now."
                        ),
                        verbose_name="strict order",
                    ),
                ),
                (
                    "other_options",
                    models.JSONField(blank=True, editable=False, null=True, verbose_name="other options"),
                ),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "db_table": "django_mq_queue",
                "ordering": ["name"],
                "permissions": [
                    ("pause_queue", "Can pause and resume a queue"),
                    ("purge_queue", "Can purge a queue"),
                ],
            },
        ),
        migrations.CreateModel(
            name="VolatileBinding",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("exchange", models.CharField(max_length=200)),
                ("exchange_type", models.CharField(max_length=10)),
                ("pattern", models.CharField(blank=True, default="", max_length=200)),
                ("queue_name", models.CharField(max_length=255)),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "db_table": "django_mq_volatilebinding",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("exchange", "pattern", "queue_name"), name="django_mq_volatilebinding_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="VolatileMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=255)),
                ("payload", models.TextField()),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "db_table": "django_mq_volatilemessage",
                "indexes": [models.Index(models.F("queue_name"), models.F("id"), name="django_mq_volatile_queue")],
            },
        ),
        migrations.CreateModel(
            name="WorkerSession",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=255, verbose_name="name")),
                (
                    "kind",
                    models.CharField(
                        choices=[("celery", "Celery worker"), ("native", "mq_worker")],
                        max_length=20,
                        verbose_name="kind",
                    ),
                ),
                ("host", models.CharField(max_length=255, verbose_name="host")),
                ("pid", models.PositiveIntegerField(verbose_name="process id")),
                ("version", models.CharField(max_length=40, verbose_name="version")),
                ("queues", models.JSONField(default=list, verbose_name="queues")),
                (
                    "credit",
                    models.PositiveIntegerField(
                        default=0, help_text="Most messages held at a time; 0 = no limit.", verbose_name="credit"
                    ),
                ),
                (
                    "held",
                    models.PositiveIntegerField(
                        default=0, help_text="Messages held at the last heartbeat.", verbose_name="held"
                    ),
                ),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("heartbeat_at", models.DateTimeField(verbose_name="last heartbeat")),
                (
                    "deadline",
                    models.DateTimeField(
                        help_text="The session is reaped if it passes without a heartbeat.",
                        verbose_name="deadline",
                    ),
                ),
                (
                    "guarded",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="The database notices when the worker's connection ends.",
                        verbose_name="guarded",
                    ),
                ),
                (
                    "busy",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Messages being handled at the last heartbeat.",
                        null=True,
                        verbose_name="busy",
                    ),
                ),
                (
                    "conduct",
                    models.CharField(
                        choices=[("work", "work"), ("quiet", "be quiet"), ("stop", "stop")],
                        db_default="work",
                        default="work",
                        help_text="The mode that an operator has set for this session.",
                        max_length=10,
                        verbose_name="worker command",
                    ),
                ),
                (
                    "given_credit",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text=(
                            "Credit that an operator has given to each consumer of the worker; "
                            "empty = the consumers' own."
                        ),
                        null=True,
                        verbose_name="credit given",
                    ),
                ),
                (
                    "memory_bytes",
                    models.PositiveBigIntegerField(
                        blank=True,
                        help_text="Memory of the worker process; a pool's other processes are not counted.",
                        null=True,
                        verbose_name="memory",
                    ),
                ),
                (
                    "slots",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Messages that it can handle at a time.",
                        null=True,
                        verbose_name="slots",
                    ),
                ),
            ],
            options={
                "verbose_name": "worker session",
                "verbose_name_plural": "worker sessions",
                "db_table": "django_mq_workersession",
                "ordering": ["-id"],
                "indexes": [models.Index(models.F("deadline"), name="django_mq_session_deadline")],
                "permissions": [
                    ("quiet_workersession", "Can tell a worker to claim no more, or to go on"),
                    ("stop_workersession", "Can tell a worker to end"),
                    ("limit_workersession", "Can change the credit of a worker"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Binding",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("exchange", models.CharField(max_length=200, verbose_name="exchange")),
                (
                    "exchange_type",
                    models.CharField(
                        choices=[("direct", "direct"), ("topic", "topic"), ("fanout", "fanout")],
                        max_length=10,
                        verbose_name="exchange type",
                    ),
                ),
                (
                    "pattern",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="Ignored by a fanout exchange.",
                        max_length=200,
                        verbose_name="pattern",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        on_delete=models.CASCADE,
                        related_name="bindings",
                        to="django_mq.queue",
                        verbose_name="queue",
                    ),
                ),
            ],
            options={
                "verbose_name": "binding",
                "verbose_name_plural": "bindings",
                "db_table": "django_mq_binding",
                "ordering": ["exchange", "pattern"],
                "constraints": [
                    models.UniqueConstraint(fields=("exchange", "pattern", "queue"), name="django_mq_binding_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="DuplicateId",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("dedup_id", models.CharField(max_length=255, verbose_name="duplicate id")),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("published_at", models.DateTimeField(verbose_name="published at")),
                (
                    "queue",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="duplicate_ids",
                        to="django_mq.queue",
                        verbose_name="queue",
                    ),
                ),
            ],
            options={
                "verbose_name": "duplicate id",
                "verbose_name_plural": "duplicate ids",
                "db_table": "django_mq_duplicateid",
                "ordering": ["-published_at"],
                "indexes": [models.Index(fields=["queue", "published_at"], name="django_mq_duplicateid_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "dedup_id"), name="django_mq_duplicateid_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ClaimLock",
            fields=[("queue_id", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="queue"))],
            options={
                "verbose_name": "claim lock",
                "verbose_name_plural": "claim locks",
                "db_table": "django_mq_turn",
            },
        ),
        migrations.CreateModel(
            name="Ownership",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_id", models.BigIntegerField(verbose_name="queue")),
                ("group_key", models.CharField(blank=True, max_length=255, null=True, verbose_name="group key")),
                ("session_id", models.BigIntegerField(verbose_name="worker session")),
            ],
            options={
                "verbose_name": "ownership",
                "verbose_name_plural": "ownerships",
                "db_table": "django_mq_ownership",
                "indexes": [
                    models.Index(fields=["queue_id", "group_key"], name="django_mq_ownership_group"),
                    models.Index(fields=["session_id"], name="django_mq_ownership_session"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkJob",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=200, unique=True, verbose_name="key")),
                (
                    "parts",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="How the rows are divided; the same at every attempt.",
                        verbose_name="parts",
                    ),
                ),
                ("query_id", models.CharField(blank=True, default="", max_length=100, verbose_name="query")),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("finished_at", models.DateTimeField(blank=True, null=True, verbose_name="finished at")),
            ],
            options={
                "verbose_name": "bulk job",
                "verbose_name_plural": "bulk jobs",
                "db_table": "django_mq_bulkjob",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="InsightCause",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("day", models.DateField(verbose_name="day")),
                (
                    "dead",
                    models.BooleanField(
                        help_text="Dead letters; otherwise failed attempts.", verbose_name="dead letter"
                    ),
                ),
                ("reason", models.CharField(max_length=255, verbose_name="reason")),
                ("messages", models.BigIntegerField(verbose_name="messages")),
            ],
            options={
                "verbose_name": "cause",
                "verbose_name_plural": "causes",
                "db_table": "django_mq_insightcause",
                "ordering": ["-day", "-messages"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "day", "dead", "reason"), name="django_mq_insightcause_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="InsightHour",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("level", models.SmallIntegerField(default=-1, verbose_name="level")),
                ("hour", models.DateTimeField(verbose_name="hour")),
                ("arrivals", models.BigIntegerField(default=0, verbose_name="arrivals")),
                ("completions", models.BigIntegerField(default=0, verbose_name="completions")),
                ("expired", models.BigIntegerField(default=0, verbose_name="expired")),
                ("removed", models.BigIntegerField(default=0, verbose_name="cancelled or purged")),
                ("retries", models.BigIntegerField(default=0, verbose_name="retries")),
                ("first_successes", models.BigIntegerField(default=0, verbose_name="done at the first attempt")),
                ("wait_p50", models.FloatField(blank=True, null=True, verbose_name="wait, median")),
                ("wait_p95", models.FloatField(blank=True, null=True, verbose_name="wait, p95")),
                ("wait_p99", models.FloatField(blank=True, null=True, verbose_name="wait, p99")),
                ("wait_sum", models.FloatField(default=0, verbose_name="wait, sum")),
                ("run_p50", models.FloatField(blank=True, null=True, verbose_name="held, median")),
                ("run_p95", models.FloatField(blank=True, null=True, verbose_name="held, p95")),
                ("run_p99", models.FloatField(blank=True, null=True, verbose_name="held, p99")),
                ("run_sum", models.FloatField(default=0, verbose_name="held, sum")),
                ("wait_histogram", models.JSONField(blank=True, default=dict, verbose_name="waits")),
                ("run_histogram", models.JSONField(blank=True, default=dict, verbose_name="times held")),
                ("depth_start", models.BigIntegerField(default=0, verbose_name="depth at the start")),
                ("depth_max", models.BigIntegerField(default=0, verbose_name="greatest depth")),
                ("depth_mean", models.FloatField(default=0, verbose_name="mean depth")),
                ("slo_misses", models.BigIntegerField(default=0, verbose_name="waited too long")),
                ("inversions", models.BigIntegerField(default=0, verbose_name="priority inversions")),
                ("starved", models.BigIntegerField(default=0, verbose_name="starved")),
                ("consumers", models.IntegerField(default=0, verbose_name="consumers")),
                ("fairness", models.FloatField(blank=True, null=True, verbose_name="fairness (Jain)")),
            ],
            options={
                "verbose_name": "hour",
                "verbose_name_plural": "insights",
                "db_table": "django_mq_insighthour",
                "ordering": ["-hour", "queue_name", "level"],
                "indexes": [models.Index(fields=["level", "hour"], name="django_mq_insighthour_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "level", "hour"), name="django_mq_insighthour_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkPart",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "batch",
                    models.BigIntegerField(default=0, help_text="Of a stream; 0 otherwise.", verbose_name="batch"),
                ),
                ("part", models.PositiveIntegerField(verbose_name="part")),
                ("rows", models.BigIntegerField(verbose_name="rows")),
                ("checksum", models.CharField(max_length=64, verbose_name="checksum")),
                ("committed_at", models.DateTimeField(verbose_name="committed at")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="ledger", to="django_mq.bulkjob", verbose_name="job"
                    ),
                ),
            ],
            options={
                "verbose_name": "part of a bulk job",
                "verbose_name_plural": "parts of bulk jobs",
                "db_table": "django_mq_bulkpart",
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "batch", "part"), name="django_mq_bulkpart_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("act", models.CharField(max_length=40, verbose_name="act")),
                ("filters", models.JSONField(default=dict, verbose_name="filters")),
                ("answers", models.JSONField(default=dict, verbose_name="answers")),
                ("user_name", models.CharField(max_length=255, verbose_name="started by")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("running", "running"),
                            ("done", "done"),
                            ("stopped", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="running",
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                (
                    "expected",
                    models.PositiveBigIntegerField(
                        default=0,
                        help_text="Messages that matched when it began, counted up to a limit.",
                        verbose_name="expected",
                    ),
                ),
                ("tried", models.PositiveBigIntegerField(default=0, verbose_name="tried")),
                ("changed", models.PositiveBigIntegerField(default=0, verbose_name="changed")),
                ("cursor", models.BigIntegerField(default=0, verbose_name="last message tried")),
                ("newest", models.BigIntegerField(verbose_name="newest message when it began")),
                ("error", models.TextField(blank=True, default="", verbose_name="error")),
                ("runner", models.UUIDField(blank=True, null=True, verbose_name="runner")),
                ("created_at", models.DateTimeField(verbose_name="started")),
                ("beat_at", models.DateTimeField(verbose_name="last progress")),
            ],
            options={
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
                "db_table": "django_mq_operation",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "state",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "scheduled"), (1, "ready"), (2, "claimed"), (3, "dead")], verbose_name="state"
                    ),
                ),
                ("level", models.PositiveSmallIntegerField(verbose_name="level")),
                ("place", models.BigIntegerField(default=0, verbose_name="place")),
                ("priority", models.PositiveSmallIntegerField(verbose_name="priority")),
                (
                    "attempts",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="Deliveries that failed, or were cut short by the worker's death.",
                        verbose_name="failed attempts",
                    ),
                ),
                ("redelivered", models.BooleanField(default=False, verbose_name="redelivered")),
                (
                    "suspect",
                    models.BooleanField(
                        default=False,
                        help_text="Was held by a worker that died; it is delivered alone.",
                        verbose_name="suspect",
                    ),
                ),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("type", models.CharField(blank=True, default="", max_length=255, verbose_name="type")),
                (
                    "correlation_id",
                    models.CharField(blank=True, max_length=255, null=True, verbose_name="correlation id"),
                ),
                ("group_key", models.CharField(blank=True, max_length=255, null=True, verbose_name="group key")),
                ("published_at", models.DateTimeField(verbose_name="published at")),
                ("deliver_at", models.DateTimeField(blank=True, null=True, verbose_name="deliver at")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires at")),
                ("claim", models.BigIntegerField(blank=True, null=True, verbose_name="claim token")),
                ("claimed_at", models.DateTimeField(blank=True, null=True, verbose_name="claimed at")),
                ("dead_reason", models.CharField(blank=True, default="", max_length=255, verbose_name="reason")),
                ("dead_at", models.DateTimeField(blank=True, null=True, verbose_name="dead since")),
                ("content_type", models.CharField(max_length=100, verbose_name="content type")),
                (
                    "content_encoding",
                    models.CharField(default="utf-8", max_length=40, verbose_name="content encoding"),
                ),
                ("headers", models.JSONField(default=dict, verbose_name="headers")),
                ("properties", models.JSONField(blank=True, null=True, verbose_name="properties")),
                ("body", models.BinaryField(verbose_name="body")),
                (
                    "queue",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="messages",
                        to="django_mq.queue",
                        verbose_name="queue",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=models.DO_NOTHING,
                        related_name="messages",
                        to="django_mq.workersession",
                        verbose_name="worker session",
                    ),
                ),
                (
                    "value_key",
                    models.CharField(
                        blank=True,
                        help_text="The key of its value in a last-value queue.",
                        max_length=255,
                        null=True,
                        verbose_name="value key",
                    ),
                ),
            ],
            options={
                "verbose_name": "message",
                "verbose_name_plural": "messages",
                "db_table": "django_mq_message",
                "ordering": ["-id"],
                "permissions": [
                    ("release_message", "Can release a claimed message"),
                    ("move_message", "Can move a message to another queue"),
                    ("cancel_message", "Can cancel a message"),
                    ("deliver_message_now", "Can deliver a scheduled message now"),
                    ("reschedule_message", "Can give a message another time to be delivered"),
                    ("prioritise_message", "Can change the priority of a message"),
                    ("retry_message", "Can retry a dead message"),
                ],
                "indexes": [
                    models.Index(
                        models.F("queue"),
                        models.OrderBy(models.F("level"), descending=True),
                        models.F("place"),
                        models.F("id"),
                        condition=models.Q(("state", 1)),
                        name="django_mq_message_ready",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.F("deliver_at"),
                        condition=models.Q(("state", 0)),
                        name="django_mq_message_due",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.F("session"),
                        condition=models.Q(("state", 2)),
                        name="django_mq_message_claimed",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.F("id"),
                        condition=models.Q(("state", 3)),
                        name="django_mq_message_dead",
                    ),
                    models.Index(
                        models.F("expires_at"),
                        condition=models.Q(("expires_at__isnull", False), ("state__lt", 2)),
                        name="django_mq_message_expiring",
                    ),
                    models.Index(
                        models.F("correlation_id"),
                        condition=models.Q(("correlation_id__isnull", False)),
                        name="django_mq_message_corr",
                    ),
                    models.Index(
                        condition=models.Q(("value_key__isnull", False)),
                        fields=["queue", "value_key"],
                        name="django_mq_message_value",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.F("group_key"),
                        condition=models.Q(("group_key__isnull", False), ("redelivered", True), ("state", 0)),
                        name="django_mq_message_retrying",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("message_id"), models.F("queue"), name="django_mq_message_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Consumer",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("handler", models.CharField(blank=True, default="", max_length=255, verbose_name="handler")),
                ("priority", models.IntegerField(default=0, verbose_name="consumer priority")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("interested", "interested"),
                            ("notified", "notified"),
                            ("busy", "out of credit"),
                            ("stopping", "stopping"),
                        ],
                        default="interested",
                        max_length=20,
                        verbose_name="state",
                    ),
                ),
                ("credit_limit", models.PositiveIntegerField(default=0, verbose_name="credit limit")),
                ("credit_used", models.PositiveIntegerField(default=0, verbose_name="credit used")),
                ("delivered", models.PositiveBigIntegerField(default=0, verbose_name="delivered")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=models.CASCADE,
                        related_name="consumers",
                        to="django_mq.workersession",
                        verbose_name="worker session",
                    ),
                ),
            ],
            options={
                "verbose_name": "consumer",
                "verbose_name_plural": "consumers",
                "db_table": "django_mq_consumer",
                "ordering": ["queue_name", "id"],
            },
        ),
        migrations.CreateModel(
            name="TaskResult",
            fields=[
                ("message_id", models.UUIDField(primary_key=True, serialize=False, verbose_name="message id")),
                ("successful", models.BooleanField(verbose_name="successful")),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                (
                    "record",
                    models.TextField(
                        help_text="The task as it was published, its value, its errors and its workers, as JSON.",
                        verbose_name="record",
                    ),
                ),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("last_attempted_at", models.DateTimeField(verbose_name="last attempted at")),
                ("finished_at", models.DateTimeField(verbose_name="finished at")),
                ("expires_at", models.DateTimeField(verbose_name="expires at")),
            ],
            options={
                "verbose_name": "task result",
                "verbose_name_plural": "task results",
                "db_table": "django_mq_taskresult",
                "ordering": ["-finished_at"],
                "indexes": [models.Index(fields=["expires_at"], name="django_mq_taskresult_pruning")],
            },
        ),
        migrations.CreateModel(
            name="ArchiveBatch",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "state",
                    models.PositiveSmallIntegerField(
                        choices=[
                            (0, "planned"),
                            (1, "written"),
                            (2, "purged"),
                            (3, "replaced"),
                            (4, "keeping house"),
                        ],
                        default=0,
                        verbose_name="state",
                    ),
                ),
                ("active", models.BooleanField(blank=True, null=True, unique=True, verbose_name="under way")),
                ("first_id", models.BigIntegerField(verbose_name="first id")),
                ("last_id", models.BigIntegerField(verbose_name="last id")),
                ("cutoff", models.DateTimeField(verbose_name="finished before")),
                ("root", models.CharField(max_length=1000, verbose_name="root")),
                ("path", models.CharField(blank=True, default="", max_length=1100, verbose_name="directory")),
                (
                    "days",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="Rows and checksum of each day, in UTC.",
                        verbose_name="days",
                    ),
                ),
                ("rows", models.BigIntegerField(default=0, verbose_name="rows")),
                ("purged_rows", models.BigIntegerField(default=0, verbose_name="rows deleted from the history")),
                ("attempt", models.UUIDField(blank=True, null=True, verbose_name="attempt")),
                ("holder", models.CharField(blank=True, default="", max_length=255, verbose_name="holder")),
                ("lease_until", models.DateTimeField(blank=True, null=True, verbose_name="lease until")),
                ("planned_at", models.DateTimeField(verbose_name="planned at")),
                ("written_at", models.DateTimeField(blank=True, null=True, verbose_name="written at")),
                ("purged_at", models.DateTimeField(blank=True, null=True, verbose_name="purged at")),
                (
                    "signed",
                    models.JSONField(
                        blank=True,
                        help_text=("Columns that the checksums cover; empty for older batches, which cover some."),
                        null=True,
                        verbose_name="signed",
                    ),
                ),
            ],
            options={
                "verbose_name": "archive batch",
                "verbose_name_plural": "archive",
                "db_table": "django_mq_archivebatch",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="History",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.UUIDField(verbose_name="message id")),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("type", models.CharField(blank=True, default="", max_length=255, verbose_name="type")),
                (
                    "correlation_id",
                    models.CharField(blank=True, max_length=255, null=True, verbose_name="correlation id"),
                ),
                ("priority", models.PositiveSmallIntegerField(verbose_name="priority")),
                (
                    "outcome",
                    models.PositiveSmallIntegerField(
                        choices=[
                            (1, "accepted"),
                            (2, "expired"),
                            (3, "cancelled"),
                            (4, "purged"),
                            (5, "replaced"),
                        ],
                        verbose_name="outcome",
                    ),
                ),
                (
                    "attempts",
                    models.PositiveIntegerField(
                        help_text="Deliveries that failed before.", verbose_name="failed attempts"
                    ),
                ),
                ("published_at", models.DateTimeField(verbose_name="published at")),
                ("ready_at", models.DateTimeField(verbose_name="ready at")),
                ("claimed_at", models.DateTimeField(blank=True, null=True, verbose_name="claimed at")),
                ("finished_at", models.DateTimeField(verbose_name="finished at")),
                ("session_id", models.BigIntegerField(blank=True, null=True, verbose_name="worker session")),
                ("headers", models.JSONField(blank=True, null=True, verbose_name="headers")),
                ("body", models.BinaryField(blank=True, null=True, verbose_name="body")),
                (
                    "redelivered",
                    models.BooleanField(
                        blank=True,
                        help_text="Whether its last delivery was not its first.",
                        null=True,
                        verbose_name="redelivered",
                    ),
                ),
            ],
            options={
                "verbose_name": "finished message",
                "verbose_name_plural": "history",
                "db_table": "django_mq_history",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(models.F("finished_at"), name="django_mq_history_pruning"),
                    models.Index(models.F("message_id"), name="django_mq_history_message"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.UUIDField(blank=True, null=True, verbose_name="message id")),
                (
                    "correlation_id",
                    models.CharField(blank=True, max_length=255, null=True, verbose_name="correlation id"),
                ),
                ("queue_name", models.CharField(max_length=200, verbose_name="queue")),
                ("number", models.PositiveIntegerField(verbose_name="attempt")),
                ("failed_at", models.DateTimeField(verbose_name="failed at")),
                ("worker", models.CharField(blank=True, default="", max_length=255, verbose_name="worker")),
                ("error", models.CharField(max_length=255, verbose_name="error")),
                ("detail", models.TextField(blank=True, default="", verbose_name="detail")),
                ("traceback", models.TextField(blank=True, default="", verbose_name="traceback")),
                (
                    "type",
                    models.CharField(blank=True, db_default="", default="", max_length=255, verbose_name="type"),
                ),
            ],
            options={
                "verbose_name": "failed attempt",
                "verbose_name_plural": "failed attempts",
                "db_table": "django_mq_attempt",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(models.F("message_id"), name="django_mq_attempt_message"),
                    models.Index(models.F("correlation_id"), name="django_mq_attempt_corr"),
                    models.Index(models.F("failed_at"), name="django_mq_attempt_pruning"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Rollup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", models.DateTimeField(verbose_name="minute")),
                ("queue_name", models.CharField(blank=True, max_length=200, verbose_name="queue")),
                ("arrived", models.PositiveIntegerField(default=0, verbose_name="arrived")),
                ("accepted", models.PositiveIntegerField(default=0, verbose_name="accepted")),
                ("expired", models.PositiveIntegerField(default=0, verbose_name="expired")),
                ("removed", models.PositiveIntegerField(default=0, verbose_name="cancelled or purged")),
                ("failed", models.PositiveIntegerField(default=0, verbose_name="failed attempts")),
                ("wait_p50", models.FloatField(null=True, verbose_name="median wait")),
                ("wait_p95", models.FloatField(null=True, verbose_name="95th percentile of the wait")),
                ("run_p50", models.FloatField(null=True, verbose_name="median time held")),
                ("run_p95", models.FloatField(null=True, verbose_name="95th percentile of the time held")),
                (
                    "newest",
                    models.BigIntegerField(
                        help_text="Highest message id when the minute was summed up.",
                        null=True,
                        verbose_name="newest message",
                    ),
                ),
                (
                    "redelivered",
                    models.PositiveIntegerField(
                        db_default=0,
                        default=0,
                        help_text="Deliveries that ended, of messages that had been delivered before.",
                        verbose_name="redelivered",
                    ),
                ),
            ],
            options={
                "verbose_name": "minute",
                "verbose_name_plural": "minutes",
                "db_table": "django_mq_rollup",
                "ordering": ["-minute", "queue_name"],
                "constraints": [
                    models.UniqueConstraint(fields=("minute", "queue_name"), name="django_mq_rollup_once")
                ],
            },
        ),
    ]
