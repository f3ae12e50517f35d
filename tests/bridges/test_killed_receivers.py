"""The receiver, the database and the broker are killed at random while messages come in: each is there once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psycopg
import pytest
from amqp import Message as Sent
from kombu import Connection

from tests.conftest import skip_or_fail
from tests.services.rabbitmq import RabbitMQ
from tests.services.server import UnavailableError
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services.postgresql import PostgreSQL
    from tests.services.server import Server

MESSAGES: Final = 4_000
TOGETHER: Final = 100
PROGRAM: Final = """
import sys
import django
from django.conf import settings
settings.DJANGO_MQ = {
    "SESSION_SECONDS": 2, "QUEUES": {"orders": {}},
    "BRIDGES": {"other": {"url": sys.argv[1], "pause_seconds": 0.5}},
    "RECEIVERS": {
        "in": {"bridge": "other", "source": "theirs", "queue": "orders", "prefetch": 100, "together": 40}
    },
}
django.setup()
from django.core.management import call_command
call_command(*sys.argv[2:])
"""


@pytest.fixture
def rabbitmq_server() -> Iterator[RabbitMQ]:
    try:
        with RabbitMQ(durable=False) as server:
            yield server
    except UnavailableError as missing:
        skip_or_fail(missing)


def program(database: str, broker: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a command of a site with a receiver."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings.postgresql",
        "DATABASE_URL": database,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return subprocess.Popen([sys.executable, "-c", PROGRAM, broker, *command], env=environment)


class Sender(threading.Thread):
    """Publishes messages in transactions of the broker, and again what may be lost: ids come more than once."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.sent = 0

    def run(self) -> None:
        ids = [str(uuid4()) for _ in range(MESSAGES)]
        while self.sent < MESSAGES:
            batch = range(self.sent, self.sent + TOGETHER)
            try:
                self._publish([(ids[number], number) for number in batch])
            except Exception:  # noqa: BLE001 - the broker was killed: once more
                continue
            self.sent += TOGETHER

    def _publish(self, batch: list[tuple[str, int]]) -> None:
        with Connection(self._url, connect_timeout=2) as connection:
            channel: Any = connection.default_channel
            channel.queue_declare("theirs", durable=True, auto_delete=False)
            channel.tx_select()
            for id_, number in [*batch, *batch[:5]]:
                message = Sent(
                    json.dumps(number), message_id=id_, content_type="application/json", delivery_mode=2
                )
                channel.basic_publish(message, routing_key="theirs")
            channel.tx_commit()


def wait_until_more(received: Callable[[], int], number: int) -> None:
    """Wait until so many more have come, or all."""
    wanted = min(MESSAGES, max(0, received()) + number)
    wait_until(lambda: received() >= wanted)


@pytest.mark.once
def test_each_message_comes_once_while_everything_is_killed(
    postgresql_server: PostgreSQL, rabbitmq_server: RabbitMQ
) -> None:
    database, broker = postgresql_server.url, rabbitmq_server.url
    chance = random.Random(11)
    with program(database, broker, "migrate", "-v0") as migrating:
        assert migrating.wait(PATIENCE_SECONDS) == 0
    sender = Sender(broker)
    sender.start()

    def received() -> int:
        try:
            with closing(psycopg.connect(database)) as connection:
                found = connection.execute("SELECT count(*) FROM django_mq_message").fetchone()
        except psycopg.Error:
            return -1
        return found[0] if found else 0

    receiver = program(database, broker, "mq_receive")
    try:
        victims: list[Server | None] = [
            None,
            None,
            None,
            None,
            postgresql_server,
            postgresql_server,
            rabbitmq_server,
        ]
        chance.shuffle(victims)
        for victim in victims:
            wait_until_more(received, chance.randrange(1, 400))
            if victim is None:
                receiver.kill()
                receiver.wait(PATIENCE_SECONDS)
                receiver = program(database, broker, "mq_receive")
            else:
                victim.kill()
                victim.start()
        sender.join(PATIENCE_SECONDS)
        with Connection(broker) as connection:
            channel: Any = connection.default_channel
            wait_until(
                lambda: (
                    received() == MESSAGES and channel.queue_declare("theirs", passive=True).message_count == 0
                ),
                lambda: f"{received()} messages were received",
            )
        receiver.terminate()
        assert receiver.wait(PATIENCE_SECONDS) == 0
    finally:
        receiver.kill()
        receiver.wait(PATIENCE_SECONDS)
    with closing(psycopg.connect(database)) as connection:
        rows = connection.execute("SELECT body, dead_reason FROM django_mq_message").fetchall()
        [shown] = connection.execute("SELECT state, kept FROM django_mq_receiver").fetchall()
    assert sorted(int(body) for body, _ in rows) == list(range(MESSAGES))
    assert {reason for _, reason in rows} == {""}
    assert shown == ("stopped", 0)
