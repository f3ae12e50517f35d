"""Messages a second from RabbitMQ into a queue, beside a plain loop that consumes, inserts and acknowledges.

``python -m tests.benchmarks.receiving [--store sqlite] [--amount 10000] [--rounds 3]``: both take turns, with the
same prefetch, and with as many messages in a transaction. Prints the medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from tests.services.environment import Services

SOURCE: Final = "measured"
BODY: Final = json.dumps({"order": 4711, "customer": "acme", "items": list(range(20))}).encode()


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--amount", type=int, default=10_000, help="Messages of each turn.")
    parser.add_argument("--rounds", type=int, default=3, help="Turns of both.")
    parser.add_argument("--together", type=int, default=200, help="Messages of a transaction.")
    options = parser.parse_args()
    services = Services()
    with tempfile.TemporaryDirectory() as folder:
        try:
            broker = services.url("rabbitmq")
            prepare(options.store, broker, services, Path(folder), options.together)
            figures = [one_round(broker, options.amount, options.together) for _ in range(options.rounds)]
        finally:
            services.close()
    raw, ours = (statistics.median(each) for each in zip(*figures, strict=True))
    sys.stdout.write(f"{options.store}, {options.amount} messages, {options.together} in a transaction\n")
    share = statistics.median(own / plain for plain, own in figures)
    sys.stdout.write(f"plain loop {raw:.0f} a second\nreceiver {ours:.0f} a second\nratio {share:.2f}\n")


def prepare(store: str, broker: str, services: Services, folder: Path, together: int) -> None:
    """Make an empty database with our tables and that of the plain loop."""
    url = services.url("postgresql") if store == "postgresql" else f"sqlite:///{folder}/measured.sqlite3"
    os.environ |= {"DJANGO_SETTINGS_MODULE": f"tests.settings.{store}", "DATABASE_URL": url}
    import django
    from django.conf import settings

    settings.DJANGO_MQ = {
        "QUEUES": {"orders": {"dedup_count": 1_000_000}},
        "BRIDGES": {"other": {"url": broker}},
        "RECEIVERS": {
            "in": {
                "bridge": "other",
                "source": SOURCE,
                "queue": "orders",
                "declare": True,
                "prefetch": prefetched(together),
                "together": together,
            }
        },
    }
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS plain (id char(36) PRIMARY KEY, body text NOT NULL)")


def one_round(broker: str, amount: int, together: int) -> tuple[float, float]:
    """Return the rates of the plain loop and of a receiver."""
    fill(broker, amount)
    begin = time.monotonic()
    plain_loop(broker, amount, together)
    raw = amount / (time.monotonic() - begin)
    fill(broker, amount)
    return raw, amount / received_seconds(amount)


def prefetched(together: int) -> int:
    """Return how many messages are on the way: two transactions and a half."""
    return together * 5 // 2


def fill(broker: str, amount: int) -> None:
    """Publish messages that are kept on disk."""
    from amqp import Message
    from kombu import Connection

    with Connection(broker) as connection:
        channel: Any = connection.default_channel
        channel.queue_declare(SOURCE, durable=True, auto_delete=False)
        channel.tx_select()
        for _ in range(amount):
            message = Message(BODY, content_type="application/json", message_id=str(uuid4()), delivery_mode=2)
            channel.basic_publish(message, routing_key=SOURCE)
        channel.tx_commit()


def plain_loop(broker: str, amount: int, together: int) -> None:
    """Consume, insert many rows in a transaction, and acknowledge them after it."""
    from django.db import connection as database
    from django.db import transaction
    from kombu import Connection

    waiting: list[Any] = []
    taken = 0
    with Connection(broker) as connection:
        channel: Any = connection.default_channel
        channel.basic_qos(0, prefetched(together), False)
        channel.basic_consume(SOURCE, callback=waiting.append)
        while taken < amount:
            with suppress(TimeoutError, socket.timeout):
                while len(waiting) < together:
                    connection.drain_events(timeout=0.005 if waiting else 0.5)
            batch, waiting[:] = waiting[:together], waiting[together:]
            if not batch:
                continue
            rows = [(each.properties["message_id"], each.body) for each in batch]
            with transaction.atomic(), database.cursor() as cursor:
                cursor.executemany("INSERT INTO plain (id, body) VALUES (%s, %s)", rows)
            channel.basic_ack(batch[-1].delivery_tag, multiple=True)
            taken += len(batch)


def received_seconds(amount: int) -> float:
    """Return how long a receiver takes for so many messages."""
    from django_mq.bridges.receiving import receivers_on, receiving
    from django_mq.models import Message

    before, begin = Message.objects.count(), time.monotonic()
    with receiving(receivers_on("default"), "default", until_empty=True) as receivers:
        while not receivers.is_over:
            time.sleep(0.01)
        # The last look at the empty queue is no part of it.
        seconds = time.monotonic() - begin - 0.5
    if Message.objects.count() != before + amount:
        raise SystemExit("The receiver has not taken each message once.")
    return seconds


if __name__ == "__main__":
    main()
