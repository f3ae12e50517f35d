"""Unique tasks: the base class, its header, and the results that it returns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq.engine.decisions.unique import Unique, debounce
from django_mq.errors import BodyNotSerialisable, ConfigurationError, DuplicateMessage, InvalidMessage
from django_mq.integrations.celery.unique import UNIQUE, UniqueTask
from django_mq.models import UniqueKey
from tests.integrations.celery.test_publishing import run_one

if TYPE_CHECKING:
    from celery import Celery

    from tests.integrations.celery.conftest import Rows

DROP = Unique(arguments=("customer",), second="drop", until="begins")


def report(app: Celery, rule: Unique = DROP, **options: Any) -> Any:
    """A task with a key."""

    @app.task(base=UniqueTask, name="report", shared=False, unique=rule, **options)
    def make(customer: int, by: str = "") -> None:
        """Nothing runs it here."""

    return make


def arguments(row: Any) -> Any:
    return json.loads(bytes(row.body))[:2]


def test_the_second_task_is_dropped_and_returns_the_result_of_the_first(app: Celery, rows: Rows) -> None:
    task = report(app)
    first = task.delay(17, by="ann")
    # A key is of values, however they are given.
    assert task.delay(customer=17, by="ben").id == first.id
    assert task.delay(18).id != first.id
    assert rows()[0].correlation_id == first.id
    assert len(rows()) == 2


def test_the_second_task_raises_or_replaces_the_first(app: Celery, rows: Rows) -> None:
    task = report(app)
    first = task.delay(17, by="ann")
    with pytest.raises(DuplicateMessage):
        task.apply_async((17,), unique=Unique(arguments=("customer",), until="begins"))
    later = Unique(arguments=("customer",), until="begins", second="replace", replaces=("body", "priority"))
    assert task.apply_async((17,), {"by": "ben"}, unique=later, priority=9).id == first.id
    [row] = rows()
    assert arguments(row) == [[17], {"by": "ben"}]
    assert (row.priority, row.correlation_id, row.headers["id"]) == (9, first.id, first.id)


def test_a_debounced_task_waits_and_keeps_the_last_arguments(app: Celery, rows: Rows) -> None:
    task = report(app, debounce(60, at_most_seconds=600, arguments=("customer",)))
    first = task.delay(17, by="ann")
    assert task.delay(17, by="ben").id == first.id
    [row] = rows()
    assert row.deliver_at is not None
    assert arguments(row) == [[17], {"by": "ben"}]


def test_a_retry_keeps_the_key(app: Celery, rows: Rows, committed_database: str) -> None:
    task = report(app, Unique(key="all"), acks_late=True)
    first = task.delay(17)
    headers = {UNIQUE: rows()[0].headers[UNIQUE]}
    again = task.apply_async((18,), task_id=first.id, retries=1, headers=headers)
    assert again.id == first.id
    key = UniqueKey.objects.using(committed_database).get()
    assert key.message_id == rows()[-1].message_id
    with pytest.raises(DuplicateMessage):
        task.delay(19)


def test_a_task_that_replaces_a_unique_one_has_its_key(app: Celery, rows: Rows, committed_database: str) -> None:
    def go_on() -> None:
        """Nothing runs it here."""

    other = app.task(go_on, name="other", shared=False)

    def replace(task: Any) -> None:
        task.replace(other.si())

    given: dict[str, Any] = {"base": UniqueTask, "bind": True, "shared": False, "acks_late": True}
    task = app.task(replace, name="report", unique=Unique(key="all"), **given)
    first = task.delay()
    run_one(app, task, id=first.id, headers={UNIQUE: rows()[0].headers[UNIQUE]})

    [row] = rows(type="other")
    assert UniqueKey.objects.using(committed_database).get().message_id == row.message_id
    with pytest.raises(DuplicateMessage):
        task.delay()


def test_a_rollback_frees_the_key_of_a_task(app: Celery, rows: Rows, committed_database: str) -> None:
    task = report(app)
    with transaction.atomic(using=committed_database):
        task.delay(17)
        transaction.set_rollback(True, using=committed_database)
    task.delay(17)
    assert len(rows()) == 1


def test_a_task_that_cannot_be_unique_is_refused_before_it_is_written(app: Celery, rows: Rows) -> None:
    task = report(app)
    table = [
        ({"unique": {"key": "a"}}, ConfigurationError, "give a Unique"),
        ({"unique": Unique(until="never")}, InvalidMessage, "until"),
        ({"unique": Unique(until="begins", arguments=("order",))}, InvalidMessage, "order"),
        ({"link": task.si(18)}, InvalidMessage, "link, which would wait"),
        ({"group_id": "g"}, InvalidMessage, "group, which would wait"),
        ({"unique": Unique(until="begins"), "kwargs": {"by": object()}}, BodyNotSerialisable, "arguments"),
    ]
    for options, error, words in table:
        with pytest.raises(error, match=words):
            task.apply_async((17,), **options)
    for header in ("a", {"key": 5}, {"until": "begins"}, {"colour": "red"}, {"key": "a", "until": "never"}):
        with pytest.raises(InvalidMessage, match=UNIQUE):
            app.send_task("report", (17,), headers={UNIQUE: header})
    assert not rows()
