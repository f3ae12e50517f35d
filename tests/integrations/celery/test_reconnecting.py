"""A consumer that connects again and again, because the database refuses it each time."""

from __future__ import annotations

from kombu import Connection, Consumer, Producer, Queue

from django_mq.errors import StoreError
from django_mq.models import WorkerSession
from tests.support.mislaying import mislaid

THINGS = Queue("things")


def try_to_consume(url: str) -> bool:
    """Connect and consume as a Celery worker does; return whether the database accepted it."""
    try:
        with Connection(url) as connection, Consumer(connection, [THINGS], on_message=lambda _: None):
            connection.drain_events(timeout=0)
    except TimeoutError:
        return True
    except StoreError:
        return False
    return True


def test_a_consumer_that_cannot_claim_leaves_one_session_at_most(url: str, committed_database: str) -> None:
    assert try_to_consume(url)
    with Connection(url) as connection:
        Producer(connection).publish("one", routing_key="things")

    with mislaid(committed_database, "django_mq_message", "claimed_at"):
        assert not any(try_to_consume(url) for _ in range(5))
        left = WorkerSession.objects.using(committed_database).count()

    assert left <= 1
    assert try_to_consume(url)
    assert not WorkerSession.objects.using(committed_database).exists()
