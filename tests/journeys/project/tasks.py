"""The site's tasks. Each says in the diary that it ran."""

from __future__ import annotations

import os
import signal
from typing import Any

from celery.exceptions import Reject
from django.contrib.auth.models import Group
from django.db import transaction

from django_mq.api import current_batch
from tests.journeys.project import diary
from tests.journeys.project.app import app


def note(task: Any, name: Any, **more: Any) -> None:
    """Write which task ran, with what, for which time."""
    info = task.request.delivery_info or {}
    diary.write(
        task=task.name,
        name=name,
        retries=task.request.retries,
        redelivered=bool(info.get("redelivered")),
        priority=info.get("priority"),
        **more,
    )


@app.task(bind=True, name="note")
def plain(task: Any, name: Any) -> None:
    note(task, name)


@app.task(bind=True, name="late", acks_late=True, reject_on_worker_lost=True)
def late(task: Any, name: Any) -> None:
    note(task, name)


@app.task(bind=True, name="double", acks_late=True, reject_on_worker_lost=True)
def double(task: Any, number: int) -> int:
    note(task, number)
    return 2 * number


@app.task(bind=True, name="total", acks_late=True, reject_on_worker_lost=True)
def total(task: Any, numbers: list[int], name: Any) -> int:
    note(task, name)
    return sum(numbers)


@app.task(bind=True, name="rare", acks_late=True, rate_limit="1/h")
def rare(task: Any, name: Any) -> None:
    note(task, name)


@app.task(bind=True, name="gated", acks_late=True, reject_on_worker_lost=True)
def gated(task: Any, name: Any, gate: str) -> None:
    note(task, name, phase="begun")
    diary.wait_at(gate)
    note(task, name, phase="done")


@app.task(bind=True, name="gated_early")
def gated_early(task: Any, name: Any, gate: str) -> None:
    note(task, name, phase="begun")
    diary.wait_at(gate)
    note(task, name, phase="done")


@app.task(bind=True, name="stubborn", max_retries=2)
def stubborn(task: Any, name: Any, countdown: float) -> None:
    note(task, name)
    if task.request.retries < 2:
        raise task.retry(countdown=countdown)


@app.task(bind=True, name="retry_in_transaction", max_retries=1, acks_late=True)
def retry_in_transaction(task: Any, name: Any) -> None:
    note(task, name)
    with transaction.atomic():
        Group.objects.create(name=f"{name} {task.request.retries}")
        if task.request.retries == 0:
            raise task.retry(countdown=0)


@app.task(bind=True, name="rejecting", acks_late=True)
def rejecting(task: Any, name: Any, requeue: bool) -> None:
    note(task, name)
    raise Reject("not today", requeue=requeue)


@app.task(bind=True, name="fatal_once", acks_late=True, reject_on_worker_lost=True)
def fatal_once(task: Any, name: Any) -> None:
    note(task, name)
    if not task.request.delivery_info.get("redelivered"):
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(bind=True, name="failing")
def failing(task: Any, name: Any) -> None:
    note(task, name)
    raise ValueError(name)


@app.task(bind=True, name="failing_late", acks_late=True)
def failing_late(task: Any, name: Any) -> None:
    note(task, name)
    raise ValueError(name)


@app.task(bind=True, name="failing_kept", acks_late=True, acks_on_failure_or_timeout=False)
def failing_kept(task: Any, name: Any) -> None:
    note(task, name)
    raise ValueError(name)


@app.task(bind=True, name="retrying", acks_late=True)
def retrying(task: Any, name: Any, gate: str) -> None:
    note(task, name)
    diary.wait_at(gate)
    if task.request.retries == 0:
        raise task.retry(countdown=0)


@app.task(bind=True, name="spreading", ignore_result=True)
def spreading(task: Any, name: Any) -> None:
    with current_batch(task):
        plain.delay(f"{name} spread")
