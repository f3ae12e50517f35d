"""Processes that publish and run workflows until they kill themselves: ``-m tests.workflows.mortal work 3 0``.

The arguments are the role, the seed of the moment of death (0: it ends in order), and the first number of a
publisher.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings

SHORT = {"SESSION_SECONDS": 2, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
#: How many workflows two publishers start, each every second one.
RUNS = 60
ITEMS = 3
#: The tables of what the steps have done.
EFFECTS = "CREATE TABLE workflow_effect (run varchar(36), step varchar(20), number integer)"
QUEUES = ("first", "each", "last", "undo", "leaf")

if TYPE_CHECKING:
    from django_mq.api import Workflow


def declare_all(alias: str) -> Workflow:
    """Declare a workflow whose steps have an effect each; return it. Of four, one fails, and is undone."""
    from django.db import connections

    from django_mq.api import Reject, Workflow, consumer, step_of

    def note(message: Any) -> Any:
        step = step_of(message, using=alias)
        name = f"un{step.name}" if step.is_compensation else step.name
        with connections[alias].cursor() as cursor:
            given = [str(step.workflow_id), name, -1 if step.number is None else step.number]
            cursor.execute("INSERT INTO workflow_effect VALUES (%s, %s, %s)", given)
        return step

    def handle(message: Any) -> Any:
        step = note(message)
        if step.name == "last" and step.input % 4 == 3:
            raise Reject("this one is to fail")
        return list(range(ITEMS)) if step.name == "first" else step.input

    for queue in QUEUES:
        consumer(queue, transactional=True, max_attempts=20)(handle)
    inner, flow = Workflow("inner"), Workflow("flow")
    inner.step("leaf two", "leaf", after=[inner.step("leaf one", "leaf")])
    first = flow.step("first", "first", compensate="undo")
    each = flow.step("each", "each", for_each=first, compensate="undo")
    flow.step("last", "last", after=[each, flow.step("whole", inner, after=[first])])
    return flow


def main() -> None:
    """Publish or work until the end, or until a random moment."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **SHORT}
    django.setup()
    from django_mq import conf

    role, seed, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    alias = conf.load().DATABASE
    flow = declare_all(alias)
    if seed:
        seconds = random.Random(seed).uniform(0.05, 1.5)
        threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGKILL]).start()
    if role == "publish":
        start_missing(flow, alias, number)
        if seed:
            threading.Event().wait()
    else:
        from django_mq.delivery.consumer.handlers import registered
        from django_mq.delivery.consumer.worker import Worker

        worker = Worker([handler for queue in QUEUES for handler in registered(queue)], threads=2, using=alias)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run()


def start_missing(flow: Workflow, alias: str, first: int) -> None:
    """Start each second workflow that does not exist yet."""
    from django.db import transaction

    from django_mq.workflows.models import WorkflowRun

    for number in range(first, RUNS, 2):
        key = str(number)
        if not WorkflowRun.objects.using(alias).filter(name="flow", label=key).exists():
            with transaction.atomic(using=alias):
                flow.start(number, key=key, using=alias)


if __name__ == "__main__":
    main()
