"""Which queues our backends have: each of them gets the handler that runs tasks."""

from __future__ import annotations

from importlib.util import find_spec

from django.conf import settings

from django_mq.delivery.handlers import consumer

#: Where the interface may come from.
INTERFACES = ("django.tasks", "django_tasks")


def serve_all() -> None:
    """Register the handler for the queues of every backend of ours. Raises ConfigurationError."""
    if not getattr(settings, "TASKS", None) or not any(map(find_spec, INTERFACES)):
        return
    from django_mq.integrations.tasks.backend import MQBackend  # noqa: PLC0415 - only where there are tasks
    from django_mq.integrations.tasks.compat import task_backends  # noqa: PLC0415 - as above
    from django_mq.integrations.tasks.running import run_task  # noqa: PLC0415 - as above

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
