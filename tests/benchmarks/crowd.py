"""A process of the crowd around one SQLite file: ``python -m tests.benchmarks.crowd publish AMOUNT`` or ``work``.

What either meets goes to its standard error; a worker ends when its standard input does.
"""

from __future__ import annotations

import logging
import sys
import threading

import django

QUEUE = "crowd"


def publish_all(amount: int) -> None:
    """Publish one by one, each in a transaction that reads before it writes."""
    from django.db import transaction

    from django_mq.delivery.publisher import publish
    from django_mq.models import Queue

    for number in range(amount):
        with transaction.atomic():
            Queue.objects.count()
            publish(QUEUE, {"n": number})


def work() -> None:
    """Accept all messages."""
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.worker import Worker

    handler = Handler(queue=QUEUE, function=lambda _: None, credit=20, time_limit_seconds=None)
    worker = Worker([handler], threads=2)

    def end_with_the_input() -> None:
        sys.stdin.read()
        worker.stop()

    threading.Thread(target=end_with_the_input, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    django.setup()
    publish_all(int(sys.argv[2])) if sys.argv[1] == "publish" else work()
