"""What is recorded of failed tasks, and over which connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery.exceptions import Reject
from celery.states import REJECTED
from django.db import connections, transaction
from django.utils.timezone import now

from django_mq.integrations.celery import failures
from django_mq.models import Attempt
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: Reports a failed run of a task; returns the task's id.
    Fail = Callable[[], str]


def a_task() -> Any:
    request = SimpleNamespace(id=str(uuid4()), retries=0, hostname="here", delivery_info={"routing_key": "celery"})
    return SimpleNamespace(name="note", request=request)


@pytest.fixture
def fail(committed_database: str) -> Iterator[Fail]:
    """Fails a task as Celery's pool processes tell it."""
    failures.connect(committed_database)

    def report() -> str:
        task = a_task()
        failures.on_failure(task, task.request.id, ValueError("why"), "where")
        return task.request.id

    yield report
    failures._kept[0].store.close()


def is_kept() -> bool:
    return failures._kept[0].store.database.connection.connection is not None  # type: ignore[attr-defined]


def test_a_failure_by_itself_leaves_no_connection_open(fail: Fail) -> None:
    fail()

    assert not is_kept()


def test_failures_are_recorded_over_a_connection_that_is_kept(
    fail: Fail, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery closes Django's after each task: another one for each failure costs more than the task."""
    monkeypatch.setattr(failures, "KEEP_SECONDS", PATIENCE_SECONDS)
    connections[committed_database].close()

    tasks = {fail(), fail()}

    assert is_kept()
    assert connections[committed_database].connection is None
    recorded = Attempt.objects.using(committed_database).filter(correlation_id__in=tasks)
    assert {(line.error, line.detail, line.number) for line in recorded} == {("ValueError", "why", 1)}
    assert len(recorded) == 2


def test_a_task_called_in_a_transaction_fails_within_it(fail: Fail, committed_database: str) -> None:
    """Where only one may write, a second connection would wait for the first."""
    with transaction.atomic(using=committed_database):
        Attempt.objects.using(committed_database).create(queue_name="celery", number=1, failed_at=now())
        task = fail()
        transaction.set_rollback(True, using=committed_database)

    assert not Attempt.objects.using(committed_database).filter(correlation_id=task).exists()


def test_a_rejected_task_is_recorded_unless_it_goes_back(committed_database: str) -> None:
    failures.connect(committed_database)
    rejected, requeued = a_task(), a_task()

    failures.on_end(rejected, REJECTED, Reject(ValueError("why")))
    failures.on_end(requeued, REJECTED, Reject(ValueError("later"), requeue=True))

    [line] = Attempt.objects.using(committed_database).all()
    assert (line.correlation_id, line.detail) == (rejected.request.id, "why")
