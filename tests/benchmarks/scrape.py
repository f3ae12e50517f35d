"""A scrape of far more than most sites have: ``python -m tests.benchmarks.scrape``.

A PostgreSQL of its own with 2,000 queues, a million live messages spread over all of them, a day of minutes of 500
queues, and 50 workers with 40 consumers each. Every figure is read, nothing is remembered. Target: 300 ms.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from datetime import timedelta

from tests.services.postgresql import PostgreSQL

QUEUES, EACH, WORKERS, SCRAPES = 2_000, 500, 50, 15
#: Of each twenty messages fourteen are ready, three scheduled, two dead, and one is claimed.
MESSAGES = """
INSERT INTO django_mq_message
    (queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type, published_at,
     claimed_at, session_id, claim, dead_reason, content_type, content_encoding, headers, body)
SELECT q.id,
    CASE WHEN n %% 20 < 14 THEN 1 WHEN n %% 20 < 17 THEN 0 WHEN n %% 20 < 19 THEN 3 ELSE 2 END,
    n %% 10, 0, n %% 10, 0, false, false, gen_random_uuid(), 'order', now() - n * interval '1 second',
    now(), 1, 1, '', 'application/json', 'utf-8', '{}', '1'
FROM django_mq_queue q, generate_series(1, %s) n
"""
MINUTES = """
INSERT INTO django_mq_rollupstep
    (seconds, begins_at, minutes, queue_name, type, arrived, accepted, expired, removed, dead, failed, redelivered,
     wait_seconds, run_seconds, waits, runs, counted)
SELECT 60, date_trunc('minute', now()) - n * interval '1 minute', 1, name, '', 5, 5, 0, 0, 0, 0, 0, 5, 5,
    '{"80": 5}', '{"80": 5}', 0
FROM generate_series(1, 1440) n,
    (SELECT '' AS name UNION SELECT name FROM django_mq_queue ORDER BY name LIMIT 501) q
"""


def main() -> None:
    """Fill, scrape, print."""
    with PostgreSQL() as server:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings.postgresql", "DATABASE_URL": server.url}
        import django

        django.setup()
        fill()
        times = sorted(scrape() for _ in range(SCRAPES))
        own = time.process_time()
        scrape()
        own = time.process_time() - own
        sys.stdout.write(
            f"A scrape of {QUEUES:,} queues with {QUEUES * EACH:,} messages: "
            f"median {statistics.median(times) * 1000:.0f} ms, slowest {times[-1] * 1000:.0f} ms; "
            f"{own * 1000:.0f} ms of a processor in this process\n"
        )


def fill() -> None:
    """Write it all, and what the database does by itself within a minute or two of so many new rows."""
    from django.core.management import call_command
    from django.db import connection
    from django.utils import timezone

    from django_mq.models import Consumer, Queue, WorkerSession

    call_command("migrate", verbosity=0)
    Queue.objects.bulk_create(Queue(name=f"queue-{number:04}") for number in range(QUEUES))
    now = timezone.now()
    times = {"started_at": now, "heartbeat_at": now, "deadline": now + timedelta(days=1)}
    names = [[f"queue-{(number * 40 + one) % QUEUES:04}" for one in range(40)] for number in range(WORKERS)]
    sessions = WorkerSession.objects.bulk_create(
        WorkerSession(name=f"worker-{pid}", kind="native", host="host", pid=pid, version="1", queues=own, **times)
        for pid, own in enumerate(names)
    )
    Consumer.objects.bulk_create(
        Consumer(session=session, queue_name=name, credit_limit=10, credit_used=1)
        for session in sessions
        for name in session.queues
    )
    with connection.cursor() as cursor:
        cursor.execute(MESSAGES, [EACH])
        cursor.execute(MINUTES)
        cursor.execute("VACUUM ANALYZE")


def scrape() -> float:
    """Read every figure and write the page, and return how many seconds that took."""
    from prometheus_client import CollectorRegistry, generate_latest

    from django_mq.integrations.prometheus.collector import QueueCollector

    registry = CollectorRegistry()
    registry.register(QueueCollector(cache_seconds=0, patience_seconds=600))
    began = time.perf_counter()
    page = generate_latest(registry)
    assert b"django_mq_up 1.0" in page
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
