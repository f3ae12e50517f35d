"""The Celery task: parse one file. It may run twice for one message, and stores nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from celery import shared_task
from celery.exceptions import Reject

from library.analysis import BROKEN, analyse_file
from library.backoff import backoff_of
from library.indexing import store_broken, store_facts
from library.models import SourceFile

if TYPE_CHECKING:
    from celery import Task

#: A file that fails so often is broken.
ATTEMPTS = 3


@shared_task(bind=True, acks_late=True, reject_on_worker_lost=True, max_retries=None)
def index_file(self: Task, file_id: int) -> None:
    """Parse a file and store what is in it; a broken one is tried again, and then dead-lettered."""
    file = SourceFile.objects.get(pk=file_id)
    try:
        facts = analyse_file(file.location)
    except BROKEN as error:
        retry_or_give_up(self, file, error)
    store_facts(file, facts)


def retry_or_give_up(task: Task, file: SourceFile, error: Exception) -> NoReturn:
    """Retry the task later, or reject it after the last attempt."""
    attempt = task.request.retries + 1
    if attempt < ATTEMPTS:
        raise task.retry(exc=error, countdown=backoff_of("index").delay(attempt))
    store_broken(file, error)
    raise Reject(error, requeue=False) from error
