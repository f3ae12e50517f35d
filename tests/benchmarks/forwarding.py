"""A bridge to RabbitMQ beside its clients: ``python -m tests.benchmarks.forwarding [--amount 10000]``.

They take turns in this process, with the same body: the bridge, which also claims each message and writes its end;
Kombu's producer, which waits for each confirm; and py-amqp with 100 messages in flight. The database is the
PostgreSQL that DATABASE_URL names, or that the tests would start. Prints the table of the pages about bridges.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from tests.benchmarks.peers import new_database
from tests.services.environment import Services

if TYPE_CHECKING:
    from collections.abc import Callable

BODY: Final = {"order": 4711, "text": "x" * 200}
IN_FLIGHT: Final = 100


def main() -> None:
    """Let each take its turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amount", type=int, default=5000, help="Messages in a turn.")
    parser.add_argument("--rounds", type=int, default=5, help="Everybody's turns; the median counts.")
    options = parser.parse_args()
    services = Services()
    try:
        rabbitmq = services.url("rabbitmq")
        with new_database(services.url("postgresql")) as url:
            set_up(url)
            rounds = [one_round(rabbitmq, options.amount) for _ in range(options.rounds)]
    finally:
        services.close()
    sys.stdout.write(table(rounds))


def set_up(url: str) -> None:
    """Create the tables."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings.postgresql", "DATABASE_URL": url, "REDIS_URL": ""}
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def one_round(rabbitmq: str, amount: int) -> dict[str, float]:
    """Return the rate of each, in messages a second."""
    turns: dict[str, Callable[[str, int], float]] = {
        "django_mq's bridge": bridge,
        "Kombu, confirms one by one": kombu_one_by_one,
        "py-amqp, 100 in flight": amqp_in_flight,
    }
    return {name: amount / turn(rabbitmq, amount) for name, turn in turns.items()}


def bridge(rabbitmq: str, amount: int) -> float:
    """Return the seconds in which a bridge has emptied a queue of so many messages."""
    from django.conf import settings
    from django.test.utils import override_settings

    from django_mq.api import publish_many
    from django_mq.bridges.declared import bridge_named
    from django_mq.bridges.worker import BridgeWorker

    queue = f"bench.{uuid4().hex[:8]}"
    named = {
        "BRIDGES": {"rabbit": {"url": rabbitmq, "declare": True, "in_flight": IN_FLIGHT}},
        "QUEUES": {queue: {"bridge": "rabbit"}},
    }
    with override_settings(DJANGO_MQ={**settings.DJANGO_MQ, **named}):
        publish_many([(queue, BODY)] * amount)
        worker = BridgeWorker(bridge_named("rabbit"), [queue])
        begin = time.perf_counter()
        worker.run(until_empty=True)
        seconds = time.perf_counter() - begin
    delete(rabbitmq, queue, amount)
    return seconds


def delete(rabbitmq: str, queue: str, amount: int) -> None:
    """Delete a queue, which has all messages."""
    from kombu import Connection

    with Connection(rabbitmq) as connection:
        channel: Any = connection.default_channel
        assert channel.queue_delete(queue) == amount


def kombu_one_by_one(rabbitmq: str, amount: int) -> float:
    """Return the seconds in which Kombu's producer has published so many messages, waiting for each confirm."""
    from kombu import Connection, Queue

    queue = f"bench.{uuid4().hex[:8]}"
    with Connection(rabbitmq, transport_options={"confirm_publish": True}) as connection:
        Queue(queue)(connection.default_channel).queue_declare()
        producer = connection.Producer()
        begin = time.perf_counter()
        for _ in range(amount):
            producer.publish(BODY, routing_key=queue, serializer="json", delivery_mode=2, mandatory=True)
        seconds = time.perf_counter() - begin
    delete(rabbitmq, queue, amount)
    return seconds


def amqp_in_flight(rabbitmq: str, amount: int) -> float:
    """Return the seconds in which py-amqp has published so many messages with many in flight."""
    import json

    from amqp import Message
    from kombu import Connection, Queue

    queue = f"bench.{uuid4().hex[:8]}"
    on_way: deque[int] = deque()

    def confirm(tag: int, multiple: bool) -> None:
        while on_way and on_way[0] <= tag:
            on_way.popleft()
        del multiple

    with Connection(rabbitmq) as connection:
        channel: Any = connection.default_channel
        Queue(queue)(channel).queue_declare()
        channel.confirm_select()
        channel.events["basic_ack"].add(confirm)
        begin = time.perf_counter()
        for number in range(1, amount + 1):
            body = json.dumps(BODY)
            channel.basic_publish(
                Message(body, content_type="application/json", delivery_mode=2, message_id=str(uuid4())),
                routing_key=queue,
                mandatory=True,
            )
            on_way.append(number)
            while len(on_way) >= IN_FLIGHT:
                connection.drain_events(timeout=30)
        while on_way:
            connection.drain_events(timeout=30)
        seconds = time.perf_counter() - begin
    delete(rabbitmq, queue, amount)
    return seconds


def table(rounds: list[dict[str, float]]) -> str:
    """Return the medians as a table, and the share of the bridge, in the same round, of the others' rates."""
    lines = ["| | messages/s | the bridge is so many times as fast |", "|---|---|---|"]
    ours = next(iter(rounds[0]))
    for name in rounds[0]:
        rate = statistics.median(each[name] for each in rounds)
        share = statistics.median(each[ours] / each[name] for each in rounds)
        lines.append(f"| {name} | {rate:,.0f} | {share:.2f} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
