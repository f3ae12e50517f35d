"""Which queues our backends have: each of them gets the handler that runs tasks."""

from __future__ import annotations

from django_mq.delivery.handlers import consumer
from django_mq.integrations.tasks.backend import MQBackend
from django_mq.integrations.tasks.compat import task_backends
from django_mq.integrations.tasks.running import run_task


def serve_all() -> None:
    """Register the handler for the queues of every backend of ours. Raises ConfigurationError."""
    for alias in task_backends:
        backend = task_backends[alias]
        if not isinstance(backend, MQBackend):
            continue
        options = backend.our_options
        for queue in sorted(backend.queues):
            consumer(
                queue,
                credit=options.CREDIT,
                time_limit_seconds=options.TIME_LIMIT_SECONDS,
                transactional=options.TRANSACTIONAL,
            )(run_task)
