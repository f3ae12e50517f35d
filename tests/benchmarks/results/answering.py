"""A native worker that answers calls: ``python -m tests.benchmarks.results.answering``."""

from __future__ import annotations

import signal

import django


def main() -> None:
    """Answer until the process is ended."""
    from django_mq.benchmarks.measures import QUEUE
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.worker import Worker

    handler = Handler(queue=QUEUE, function=lambda message: message.body, credit=20, time_limit_seconds=None)
    worker = Worker([handler], threads=1)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


if __name__ == "__main__":
    django.setup()
    main()
