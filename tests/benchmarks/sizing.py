"""What a message costs a PostgreSQL: ``python -m tests.benchmarks.sizing [--amount 20000]``.

Space of the tables and their indexes, write-ahead log, transactions and rows, for messages that wait, that a
worker has handled, and that a bridge has forwarded to RabbitMQ; connections of each kind of process. The database
is one of its own on the server that DATABASE_URL names, or that the tests would start. Prints the tables of the
page about sizes. ``manage.py mq_bench`` measures the messages a second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from tests.benchmarks.forwarding import BODY, delete, set_up
from tests.benchmarks.peers import new_database
from tests.services.environment import Services
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The tables of which a message has rows.
WAITING, PAST = "django_mq_message", "django_mq_history"
#: How many messages are published in a transaction.
TOGETHER: Final = 100
THREADS: Final = 4
WORKER: Final = """
import os, sys
from django.conf import settings
settings.DJANGO_MQ = {"REDIS_URL": None, **eval(os.environ["MQ"])}
import django
django.setup()
from django_mq.api import consumer
if sys.argv[1] == "handled":
    consumer("handled")(print)
from django.core.management import call_command
call_command("mq_worker", "--queues", sys.argv[1], "--threads", "4")
"""


class Counters(NamedTuple):
    """What the server counts."""

    log_bytes: int
    commits: int
    rows: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a message has cost in one step."""

    step: str
    log_bytes: float
    commits: float
    rows: float
    #: Messages a second.
    rate: float


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amount", type=int, default=20_000, help="Messages of each step.")
    amount = parser.parse_args().amount
    services = Services()
    try:
        rabbitmq = services.url("rabbitmq")
        with new_database(services.url("postgresql")) as url:
            set_up(url)
            sys.stdout.write(costs(rabbitmq, amount))
            sys.stdout.write(connections_of_workers(rabbitmq, url))
    finally:
        services.close()


def costs(rabbitmq: str, amount: int) -> str:
    """Return the tables of what a message costs."""
    from django.conf import settings
    from django.test.utils import override_settings

    forwarded = f"sized.{uuid4().hex[:8]}"
    named = {
        "BRIDGES": {"rabbit": {"url": rabbitmq, "declare": True}},
        "QUEUES": {"handled": {}, forwarded: {"bridge": "rabbit"}},
    }
    with override_settings(DJANGO_MQ={**settings.DJANGO_MQ, **named}):
        publish(forwarded, TOGETHER)  # makes the queue, and what is made once
        forward(forwarded)
        delete(rabbitmq, forwarded, TOGETHER)
        lines = [f"{amount:,} messages with a body of {len(repr(BODY))} bytes", ""]
        steps: dict[str, Callable[[], object]] = {
            f"publish, {TOGETHER} in a transaction": lambda: publish(forwarded, amount),
            "forward through a bridge": lambda: forward(forwarded),
            "publish, one in a transaction": lambda: publish("handled", amount, together=1),
            f"claim and handle, {THREADS} threads": lambda: handle("handled"),
        }
        lines += ["| step | messages/s | write-ahead log | transactions | rows written |", "|---|---|---|---|---|"]
        sizes = {}
        for name, step in steps.items():
            clear = name.startswith("publish")
            if clear:
                empty()
            cost = measured(name, step, amount)
            numbers = f"{cost.rate:,.0f} | {cost.log_bytes:,.0f} bytes | {cost.commits:.3f} | {cost.rows:.2f}"
            lines.append(f"| {name} | {numbers} |")
            sizes[name] = (WAITING if clear else PAST, size(WAITING if clear else PAST))
        lines += ["", "| after | table | rows | indexes |", "|---|---|---|---|"]
        for name, (table, (heap, indexes)) in sizes.items():
            lines.append(f"| {name} | {table} | {heap / amount:,.0f} bytes | {indexes / amount:,.0f} bytes |")
        delete(rabbitmq, forwarded, amount)
    return "\n".join([*lines, "", ""])


def publish(queue: str, amount: int, *, together: int = TOGETHER) -> None:
    """Publish so many messages."""
    from django_mq.api import publish_many

    for _ in range(amount // together):
        publish_many([(queue, BODY)] * together)


def forward(queue: str) -> None:
    """Empty the queue through its bridge."""
    from django_mq.bridges.declared import bridge_named
    from django_mq.bridges.worker import BridgeWorker

    BridgeWorker(bridge_named("rabbit"), [queue]).run(until_empty=True)


def handle(queue: str) -> None:
    """Empty the queue with a handler that does nothing."""
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.worker import Worker

    handler = Handler(queue=queue, function=lambda _: None, credit=100, time_limit_seconds=None)
    Worker([handler], threads=THREADS).run(until_empty=True)


def measured(step: str, work: Callable[[], object], amount: int) -> Cost:
    """Return what the work has cost for each of so many messages."""
    before, begin = counters(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - begin, counters()
    each = [(float(new) - float(old)) / amount for old, new in zip(before, after, strict=True)]
    return Cost(step, *each, amount / seconds)


def counters() -> Counters:
    """Return what the server has counted, when all sessions have told it."""
    asked("SELECT pg_stat_force_next_flush() IS NULL")
    return Counters(
        *asked(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'), xact_commit,"
            " tup_inserted + tup_updated + tup_deleted FROM pg_stat_database WHERE datname = current_database()"
        )
    )


def empty() -> None:
    """Make the tables as small as they can be, and write a checkpoint: after it, pages are logged whole once."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {WAITING}, {PAST} CASCADE")
        cursor.execute("CHECKPOINT")


def size(table: str) -> tuple[int, int]:
    """Return the bytes of a table, and of its indexes."""
    return asked(f"SELECT pg_table_size('{table}'), pg_indexes_size('{table}')")


def asked(statement: str) -> Any:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def connections_of_workers(rabbitmq: str, url: str) -> str:
    """Return how many connections each kind of worker process has while it is idle."""
    lines = ["| process | connections to the database |", "|---|---|"]
    bridges = {"BRIDGES": {"rabbit": {"url": rabbitmq, "declare": True}}}
    receivers = {"in": {"bridge": "rabbit", "source": "sized.in", "queue": "received", "declare": True}}
    queues = {"handled": {}, "forwarded": {"bridge": "rabbit"}, "received": {"dedup_count": 100_000}}
    for name, queue, given in (
        (f"mq_worker with {THREADS} threads", "handled", bridges),
        ("mq_worker that forwards", "forwarded", bridges),
        ("the same, and one receiver", "forwarded", {**bridges, "RECEIVERS": receivers}),
    ):
        lines.append(f"| {name} | {connections_of(queue, {'QUEUES': queues, **given}, url)} |")
    for each in ("forwarded", "sized.in"):
        delete(rabbitmq, each, 0)
    return "\n".join([*lines, ""])


def connections_of(queue: str, given: Mapping[str, Any], url: str) -> int:
    """Return the connections of a worker process when their number stands still."""
    others = connections_of_others()
    environment = os.environ | {"MQ": repr(given), "DATABASE_URL": url}
    with subprocess.Popen([sys.executable, "-c", WORKER, queue], env=environment) as worker:
        try:
            found: list[int] = []

            def stands_still() -> bool:
                found.append(connections_of_others() - others)
                return len(found) > 50 and found[-1] > 0 and len({*found[-50:]}) == 1

            wait_until(stands_still)
        finally:
            worker.terminate()
            worker.wait()
    return found[-1]


def connections_of_others() -> int:
    """Return how many other sessions this database has."""
    return int(
        asked(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )[0]
    )


if __name__ == "__main__":
    main()
