"""A cold shutdown runs inside a signal's handler, at any moment of the worker's work."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from kombu import Connection, Consumer, Producer, Queue

from django_mq.models import Message
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integrations.celery.conftest import Rows


@contextmanager
def in_the_middle_of_a_claim(alias: str, act: Callable[[], None]) -> Iterator[None]:
    """Hold the table until a claim of this thread waits for it, then act in a signal's handler."""
    main, acted = threading.get_ident(), threading.Event()

    def handler(*_: Any) -> None:
        act()
        acted.set()

    def hold() -> None:
        connection = connections.create_connection(alias)
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"LOCK TABLE {Message._meta.db_table} IN ACCESS EXCLUSIVE MODE")
            held.set()
            wait_until(lambda: _somebody_waits(cursor))
            signal.pthread_kill(main, signal.SIGUSR2)
            acted.wait(PATIENCE_SECONDS)
            cursor.execute("ROLLBACK")
        connection.close()

    held = threading.Event()
    thread = threading.Thread(target=hold)
    previous = signal.signal(signal.SIGUSR2, handler)
    thread.start()
    held.wait(PATIENCE_SECONDS)
    yield
    thread.join()
    signal.signal(signal.SIGUSR2, previous)
    assert acted.is_set()


def _somebody_waits(cursor: Any) -> bool:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
    return bool(cursor.fetchone()[0])


def test_settling_and_cancelling_in_the_middle_of_a_claim(
    connection: Connection, rows: Rows, committed_database: str
) -> None:
    if connections[committed_database].vendor != "postgresql":
        pytest.skip("only PostgreSQL lets a test hold up a claim")
    channel = connection.default_channel
    received: list[Any] = []
    consumer = Consumer(channel, [Queue("things")], on_message=received.append)
    for body in (1, 2, 3):
        Producer(channel).publish(body, routing_key="things")
    consumer.qos(prefetch_count=2)
    consumer.consume()
    while len(received) < 2:
        connection.drain_events(timeout=PATIENCE_SECONDS)
    received[0].ack()

    def shut_down() -> None:
        received[1].reject()
        consumer.cancel()

    with in_the_middle_of_a_claim(committed_database, shut_down), pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.5)
    connection.close()

    assert [message.payload for message in received] == [1, 2]
    assert [(row.state, row.attempts) for row in rows()] == [(Message.Status.DEAD, 1), (Message.Status.READY, 0)]
