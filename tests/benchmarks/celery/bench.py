"""One run: both sides, the amounts, and the function that reports progress."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connection, transaction

from django_mq.models import History, Message

if TYPE_CHECKING:
    from tests.benchmarks.celery.sides import OnDjangoMQ, OnRedis

HOUR_SECONDS = 3600


@dataclass(frozen=True)
class Bench:
    """What a measuring function is given."""

    ours: OnDjangoMQ
    redis: OnRedis
    #: Small amounts: a look, not a measurement.
    quick: bool
    #: Rounds; the median counts.
    repeats: int

    def amount(self, full: int, quick: int) -> int:
        """Return how many: of a full run, or of a quick one."""
        return quick if self.quick else full

    @staticmethod
    def say(progress: str) -> None:
        """Report progress."""
        sys.stderr.write(f"  {progress}\n")
        sys.stderr.flush()

    def publish_later(self, amount: int) -> None:
        """Publish tasks that are due in an hour."""
        task = self.ours.app.tasks["bench.nothing"]
        with self.ours.app.producer_pool.acquire(block=True) as producer, transaction.atomic():
            for number in range(amount):
                task.apply_async((number,), countdown=HOUR_SECONDS, producer=producer)

    def empty(self) -> None:
        """Throw away what a measure has left with both brokers."""
        self.redis.app.control.purge()
        tables = ", ".join(model._meta.db_table for model in (Message, History))
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {tables}")
