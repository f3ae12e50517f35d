"""Claiming ahead: quick consumers get more rows at a time, and never more messages than they asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from kombu import Connection, Consumer, Producer, Queue

from django_mq.models import Message
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")

THINGS = Queue("things")
PREFETCH = 4
#: So many settled in next to no time, or in any time that a test may take.
VERY_MANY = 10**12


class Worker:
    """Takes messages, and settles each at once as long as they are quick."""

    def __init__(self, connection: Connection, *, quick: int) -> None:
        self.connection = connection
        self.quick = quick
        self.received: list[Any] = []
        self.most = 0
        self._held: list[Any] = []
        channel = connection.default_channel
        THINGS(channel).declare()
        self.consumer = Consumer(channel, [THINGS], on_message=self.take)
        self.consumer.qos(prefetch_count=PREFETCH)
        self.consumer.consume()

    def take(self, message: Any) -> None:
        self.received.append(message.payload)
        self._held.append(message)
        self.most = max(self.most, len(self._held))
        if len(self.received) <= self.quick:
            self._held.pop().ack()

    def work(self) -> None:
        with suppress(TimeoutError):
            self.connection.drain_events(timeout=0.05)

    def end_all(self) -> None:
        self.quick = VERY_MANY
        while self._held:
            self._held.pop().ack()


def fill(connection: Connection, amount: int) -> None:
    producer = Producer(connection.default_channel)
    THINGS(connection.default_channel).declare()
    with producer.batch():
        for number in range(amount):
            producer.publish(number, routing_key="things")


def claimed(rows: Rows) -> int:
    return len(rows(state=Message.Status.CLAIMED))


def wait_until_slow(worker: Worker, rows: Rows) -> None:
    def settled_down() -> bool:
        worker.work()
        return len(worker.received) == worker.quick + PREFETCH and claimed(rows) == PREFETCH

    wait_until(settled_down, lambda: f"{PREFETCH} claimed of {len(rows())}: {claimed(rows)}")


def test_a_worker_that_stops_being_quick_keeps_its_window_and_gives_the_rest_back(
    connection: Connection, rows: Rows
) -> None:
    fill(connection, 150)
    worker = Worker(connection, quick=60)

    wait_until_slow(worker, rows)

    assert worker.received == list(range(60 + PREFETCH))
    assert worker.most <= PREFETCH
    assert not any(row.attempts for row in rows())


def test_what_was_given_back_comes_in_its_place_once_there_is_room(connection: Connection, rows: Rows) -> None:
    fill(connection, 150)
    worker = Worker(connection, quick=60)
    wait_until_slow(worker, rows)

    worker.end_all()
    wait_until(lambda: worker.work() or not rows())

    assert worker.received == list(range(150))
    assert worker.most <= PREFETCH
