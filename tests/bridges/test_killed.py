"""The broker and workers are killed while a bridge works: nothing is lost, stuck, charged, or out of order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from kombu import Connection

from django_mq.api import OutgoingMessage, publish_many
from django_mq.models import Attempt, History, Message
from tests.conftest import skip_or_fail
from tests.services.rabbitmq import RabbitMQ
from tests.services.server import UnavailableError
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

AMOUNT, GROUPS = 4_000, 50
QUEUE = "outbox"
WORKER = """
import sys
import django
from django.conf import settings
settings.DJANGO_MQ = {
    **settings.DJANGO_MQ,
    "SESSION_SECONDS": 2,
    "POLL_SECONDS": 0.05,
    "MAINTENANCE_SECONDS": 0.2,
    "BRIDGES": {"rabbit": {"url": sys.argv[1], "declare": True, "pause_seconds": 0.5}},
    "QUEUES": {"outbox": {"bridge": "rabbit", "grouping": "shared"}},
}
django.setup()
from django.core.management import call_command
call_command("mq_worker", "--queues", "outbox")
"""


@pytest.fixture
def own_broker() -> Iterator[RabbitMQ]:
    """A RabbitMQ of the test's own, to kill and start."""
    try:
        with RabbitMQ() as server:
            yield server
    except UnavailableError as missing:
        skip_or_fail(missing)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10 * PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_each_message_arrives_although_the_broker_and_workers_are_killed(
    settings: Settings, own_broker: RabbitMQ, process_environment: Callable[[str], dict[str, str]]
) -> None:
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "BRIDGES": {"rabbit": {"url": own_broker.url}},
        "QUEUES": {QUEUE: {"bridge": "rabbit", "grouping": "shared"}},
    }
    publish_many(
        OutgoingMessage(queue=QUEUE, body=number, group_key=f"g{number % GROUPS}") for number in range(AMOUNT)
    )
    environment = process_environment("default")

    def left() -> int:
        return Message.objects.count()

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", WORKER, own_broker.url], env=environment)

    worker = start()
    try:
        wait_for(lambda: left() < AMOUNT * 0.9)
        own_broker.kill()
        own_broker.start()
        wait_for(lambda: left() < AMOUNT * 0.7)
        worker.kill()
        worker.wait()
        worker = start()
        wait_for(lambda: left() < AMOUNT * 0.4)
        own_broker.stop()
        own_broker.start()
        wait_for(lambda: left() == 0)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 0

    assert History.objects.filter(outcome=History.Outcome.FORWARDED).count() == AMOUNT
    assert not Attempt.objects.exists()
    first: dict[str, int] = {}
    for message in taken(own_broker.url):
        first.setdefault(message.properties["message_id"], json.loads(message.body))
    assert sorted(first.values()) == [*range(AMOUNT)]
    for group in range(GROUPS):
        numbers = [number for number in first.values() if number % GROUPS == group]
        assert numbers == sorted(numbers)


def taken(url: str) -> Iterator[Any]:
    with Connection(url) as connection:
        channel: Any = connection.default_channel
        while (message := channel.basic_get(QUEUE, no_ack=True)) is not None:
            yield message
