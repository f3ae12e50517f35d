"""The Celery worker of a place, and its tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from celery import Celery
from django.db import DatabaseError, InterfaceError, connections, transaction

from django_mq.delivery.codecs import MESSAGE_ID
from django_mq.integrations.celery import known  # noqa: F401 - as in a project that names its broker in no setting
from tests.proof.notes import DONE, SENT, note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.proof.place import Place

#: The queue of a place.
QUEUE = "proof"
#: How a task ends all connections but its own.
CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

app = Celery("proof", broker="django-mq://", set_as_current=False)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="proof.work")
def work(message: str, *, cut: bool = False) -> None:
    """Leave a note; with ``cut``, end the connections of everybody else first."""
    if cut:
        _patiently(_cut)
    _patiently(lambda: note(DONE, [UUID(message)]))


def member(task: Any, place: int) -> int:
    """Return the place of a member of a chord; one of them is retried first."""
    if place == 0 and not task.request.retries:
        raise task.retry(countdown=0.1)
    return place


#: Acknowledged after it has run, or before.
for is_late, name in ((True, "proof.late"), (False, "proof.early")):
    app.task(name=name, bind=True, acks_late=is_late, ignore_result=False)(member)


@app.task(name="proof.total", ignore_result=False)
def total(places: list[int]) -> int:
    """Be the body of a chord."""
    return sum(places)


@app.task(name="proof.part")
def part(place: int) -> None:
    """Be a member of a batch, of which one fails."""
    if place == 1:
        raise ValueError(place)


@app.task(name="proof.told")
def told(piece: str) -> None:
    """Be told that a batch is complete."""
    _patiently(lambda: note("complete", [UUID(piece)]))


def use_results() -> None:
    """Keep results in the database, in this process, and publish what belongs to no app by this one."""
    app.conf.result_backend = "django-mq://"
    app.set_default()


def _cut() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(CUT)


def _patiently(step: Callable[[], None]) -> None:
    """Try again if another task cuts the connection: a task that fails is acknowledged."""
    while True:
        try:
            return step()
        except (DatabaseError, InterfaceError):
            connections["default"].close()


def run(*options: str) -> None:
    """Run a Celery worker in this process until it is told to stop."""
    name = f"{os.getpid()}@proof"
    app.worker_main(["worker", "--loglevel", "INFO", "--hostname", name, "--without-mingle", *options])


def send_tasks(place: Place, count: int, *, cut: Sequence[int] = ()) -> None:
    """Publish so many tasks, noting each, in one transaction; those of these numbers cut the connections."""
    ids = [uuid4() for _ in range(count)]
    with (
        Celery("proof", broker=f"django-mq:///{place.alias}", set_as_current=False) as publisher,
        transaction.atomic(using=place.alias),
    ):
        note(SENT, ids, place.alias)
        for number, id_ in enumerate(ids):
            options: dict[str, Any] = {MESSAGE_ID: str(id_)}
            given = {"cut": number in cut}
            publisher.send_task("proof.work", [str(id_)], given, queue=QUEUE, ignore_result=True, **options)
