"""A Celery worker on django-mq:// beside the same worker on Kombu's Redis transport."""

from __future__ import annotations

import tempfile
import time
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from django_mq.benchmarks.celery_app import app, nothing, stamp
from django_mq.benchmarks.counter import Counter
from django_mq.benchmarks.measuring import Result, median, percentile, rate, take_turns
from django_mq.benchmarks.workers import celery_worker, resident_bytes, wait_until
from django_mq.delivery.message_ids import new_message_id
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE = "mq_bench_celery"
#: Median pick-up of an idle worker, in milliseconds, that should not be exceeded.
PICK_UP_MARK_MS = 5.0
#: An idle worker is given so long, in seconds, between two samples.
PAUSE_SECONDS = 0.02
#: After so many tasks a worker has become as large as it will.
SETTLED_IN = 500


class Broker:
    """One broker under measurement."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url

    def fill(self, amount: int) -> None:
        """Publish tasks that do nothing."""
        with app.connection_for_write(self.url) as connection, app.amqp.Producer(connection) as producer:
            for _ in range(amount):
                nothing.apply_async(producer=producer, queue=QUEUE)

    def pile_up(self, amount: int) -> None:
        """Make a backlog, by whatever way is quickest."""
        self.fill(amount)

    def drain(self, amount: int) -> float:
        """Fill the queue, start a worker, and return its rate from its first task to its last."""
        self.fill(amount)
        with tempfile.TemporaryDirectory() as folder:
            counter = Counter.create(Path(folder) / "done")
            with celery_worker(self.url, QUEUE, counter=Path(folder) / "done") as worker:
                wait_until(lambda: counter.total() > 0, worker)
                left = amount - counter.total()
                return rate(left, partial(wait_until, lambda: counter.total() >= amount, worker))

    def pick_up(self, samples: int) -> list[float]:
        """Return milliseconds from just before ``apply_async`` to the task's body, the worker idle each time."""
        with tempfile.TemporaryDirectory() as folder, celery_worker(self.url, QUEUE) as worker:
            path = Path(folder) / "waits"
            path.touch()
            with app.connection_for_write(self.url) as connection, app.amqp.Producer(connection) as producer:
                for number in range(1, samples + 11):
                    stamp.apply_async((time.time(), str(path)), producer=producer, queue=QUEUE)
                    wait_until(lambda wanted=number: _lines(path) >= wanted, worker)  # type: ignore[misc]
                    time.sleep(PAUSE_SECONDS)
            waits = [float(line) * 1000 for line in path.read_text(encoding="ascii").splitlines()]
        return waits[10:]  # the first ones open connections

    def memory(self, backlog: int) -> float:
        """Return the worker's megabytes while it works on a backlog of this size."""
        self.pile_up(backlog)
        with tempfile.TemporaryDirectory() as folder:
            counter = Counter.create(Path(folder) / "done")
            with celery_worker(self.url, QUEUE, counter=Path(folder) / "done") as worker:
                wait_until(lambda: counter.total() >= SETTLED_IN, worker)
                return resident_bytes(worker.pid) / 1e6


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def django_mq_broker(alias: str) -> Broker:
    """The broker under test."""
    broker = Broker("django-mq", f"django-mq:///{alias}")
    broker.pile_up = partial(_pile_up, broker, alias)  # type: ignore[method-assign]
    return broker


def _pile_up(broker: Broker, alias: str, amount: int) -> None:
    """Copy one task's row: publishing so many would take minutes."""
    broker.fill(1)
    row = Message.objects.using(alias).filter(queue__name=QUEUE)[0]
    for start in range(1, amount, 1000):
        copies = [copy(row) for _ in range(min(1000, amount - start))]
        for item in copies:
            item.pk, item.message_id = None, new_message_id()
        Message.objects.using(alias).bulk_create(copies)


def measure(
    alias: str, redis_url: str | None, *, amount: int, samples: int, backlog: int, repeats: int
) -> Iterator[Result]:
    """Yield drain, pick-up and memory."""
    ours = django_mq_broker(alias)
    theirs = Broker("Redis", redis_url) if redis_url else None
    yield _drain(ours, theirs, amount, repeats)
    yield from _pick_up(ours, theirs, samples)
    yield _memory(ours, alias, backlog)


def _drain(ours: Broker, theirs: Broker | None, amount: int, repeats: int) -> Result:
    measures = {broker.name: partial(broker.drain, amount) for broker in (ours, theirs) if broker}
    samples = take_turns(repeats, **measures)
    limit = median(samples["Redis"]) if theirs else None
    result = Result("Celery drain, prefork, no-op task", median(samples["django-mq"]), "per second", limit)
    if result.ratio is not None:
        result.limit_name = "Kombu's Redis transport"
        result.mark, result.reached = "no slower than Redis", result.ratio >= 1.0
    result.samples = samples
    return result


def _pick_up(ours: Broker, theirs: Broker | None, samples: int) -> Iterator[Result]:
    waits = {broker.name: broker.pick_up(samples) for broker in (ours, theirs) if broker}
    for share, title in ((0.5, "p50"), (0.99, "p99")):
        value = percentile(waits["django-mq"], share)
        limit = percentile(waits["Redis"], share) if theirs else None
        result = Result(f"Celery pick-up, idle worker, {title}", value, "ms", limit, samples=waits)
        result.limit_name = "Kombu's Redis transport" if theirs else ""
        if share == 0.5 and theirs:
            result.mark, result.reached = f"at most {PICK_UP_MARK_MS} ms", value <= PICK_UP_MARK_MS
        yield result


def _memory(ours: Broker, alias: str, backlog: int) -> Result:
    small = ours.memory(1000)
    shared_store(alias).purge(QUEUE)
    large = ours.memory(backlog)
    shared_store(alias).purge(QUEUE)
    result = Result(f"Celery worker's memory, backlog {backlog:,}", large, "MB", small)
    result.limit_name = "backlog 1,000"
    result.mark, result.reached = "does not grow", large <= small * 1.1
    return result
