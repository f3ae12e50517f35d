"""A site with our backend, and workers that run its tasks."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from django_mq import process
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer.handlers import Way, forget, handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.models import Message, Queue
from django_mq.stores.registry import shared_store
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet
    from pytest_django import Settings

#: Django 6.0 has the interface, before it is a package.
collect_ignore_glob = [] if find_spec("django.tasks") or find_spec("django_tasks") else ["*.py"]
QUEUES = ("default", "mails")
EVENT_LOOP = partial(EventLoopPool, threads=4)


def _waiting(alias: str) -> QuerySet[Message]:
    soon = timezone.now() + timedelta(minutes=1)
    live = Message.objects.using(alias).exclude(state=Message.Status.DEAD)
    return live.exclude(deliver_at__isnull=False, deliver_at__gt=soon)


def use(settings: Settings, **options: Any) -> None:
    """Make our backend the site's, with these options."""
    backend = {"BACKEND": "django_mq.integrations.tasks.MQBackend", "QUEUES": list(QUEUES), "OPTIONS": options}
    settings.TASKS = {"default": backend}


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queues of our backend, whose failures are repeated at once, three times."""
    use(settings)
    for queue in QUEUES:
        declare(shared_store(committed_database), queue)
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0, max_attempts=3)
    return committed_database


@pytest.fixture
def work(alias: str) -> Iterator[Any]:
    """The module of tasks; their decorators ask for the backend, so it is imported only now."""
    module = import_module("tests.integrations.tasks.work")
    module.ran.clear()
    yield module
    for queue in QUEUES:
        forget(queue)


@pytest.fixture
def run(alias: str) -> Callable[[], None]:
    """Run all that waits, in a worker that ends when nothing is left."""

    def run() -> None:
        from django_mq.integrations.tasks.running import serve_all

        process.reset()  # the worker is another process, which reads the queues anew
        serve_all()
        handlers = [handler_of(queue) for queue in QUEUES]

        def is_done() -> bool:
            # A repeated task is due a moment after its failure: a worker may find nothing, and end.
            is_async = handlers[0].way is Way.EVENT_LOOP
            given: Any = {"threads": 20, "pool": EVENT_LOOP} if is_async else {"threads": 1}
            Worker(handlers, using=alias, **given).run(until_empty=True)
            return not _waiting(alias).exists()

        wait_until(is_done, lambda: f"some wait: {list(_waiting(alias))}")

    return run
