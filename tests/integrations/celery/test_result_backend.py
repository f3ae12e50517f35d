"""``django-mq://`` as a result backend: what Celery's other backends do, in the database of the queues."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery, states
from celery.app.task import Context
from celery.exceptions import TimeoutError as ResultTimeout
from celery.result import AsyncResult, GroupResult, denied_join_result
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext
from kombu.exceptions import EncodeError

from django_mq.errors import BrokerURLError, ConfigurationError, WaitInTransaction
from django_mq.results import pruning, waiting
from django_mq.results.models import StoredResult
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings


@pytest.fixture
def app(url: str) -> Iterator[Celery]:
    """A Celery app whose broker and results are in the test's database."""
    with Celery("unit", broker=url, backend=url, set_as_current=False) as made:
        made.task(name="note", shared=False)(_note)
        yield made
    waiting.WAITERS.close()


def _note() -> None:
    """Do nothing: no worker runs it."""


def request(task_id: str, **more: Any) -> Context:
    return Context(id=task_id, task="note", args=[1], kwargs={"a": 2}, retries=0, **more)


@pytest.mark.parametrize(
    ("given", "error"),
    [("django-mq:///:memory:", ConfigurationError), ("django-mq:///nowhere", BrokerURLError)],
)
def test_where_no_results_can_be_kept_is_refused_before_a_task_is_published(
    url: str, given: str, error: type[Exception]
) -> None:
    with Celery("unit", broker=url, backend=given, set_as_current=False) as app:
        task = app.task(name="note", shared=False)(_note)

        for use in (task.delay, lambda: app.backend):
            with pytest.raises(error):
                use()


def test_each_state_is_read_as_it_was_stored(app: Celery) -> None:
    backend = app.backend
    boom = ValueError("no", 3)
    stored: list[tuple[str, Any, dict[str, Any]]] = [
        (states.STARTED, {"pid": 1}, {}),
        ("PROGRESS", {"done": 0.4, "what": "page 12 \x00"}, {}),
        (states.RETRY, boom, {"traceback": "line 1\x00"}),
        (states.FAILURE, boom, {"traceback": "line 1"}),
        (states.SUCCESS, [1, {"x": None}], {}),
    ]
    assert app.AsyncResult("t").state == states.PENDING
    for state, value, more in stored:
        backend.store_result("t", value, state, **more)

        result = AsyncResult("t", app=app)
        assert result.state == state
        if isinstance(value, Exception):
            assert (type(result.result), result.result.args) == (ValueError, ("no", 3))
            assert "line 1" in (result.traceback or "")
        else:
            assert result.result == value
        assert (result.date_done is not None) == (state in states.READY_STATES)

    backend.store_result("t", boom, states.FAILURE)  # of a run that was believed lost
    assert backend.get_task_meta("t", cache=False)["status"] == states.SUCCESS

    AsyncResult("t", app=app).forget()
    assert app.AsyncResult("t").state == states.PENDING


def test_an_extended_result_says_how_the_task_was_called(app: Celery) -> None:
    app.conf.result_extended = True
    message_id = "0190163d-8694-739b-aea5-966c26f8ad91"
    made = request(
        "t",
        hostname="w@here",
        delivery_info={"routing_key": "celery"},
        parent_id="p",
        group="g",
        properties={"mq_own_id": message_id},
        stamped_headers=["tenant"],
        stamps={"tenant": ["me"]},
    )
    made.children.append(app.AsyncResult("child"))
    app.backend.store_result("t", 1, states.SUCCESS, request=made)

    meta = app.backend.get_task_meta("t")
    assert [meta[name] for name in ("name", "args", "kwargs", "worker", "queue", "retries", "tenant")] == [
        "note",
        [1],
        {"a": 2},
        "w@here",
        "celery",
        0,
        ["me"],
    ]
    assert (meta["parent_id"], meta["group_id"]) == ("p", "g")
    assert AsyncResult("t", app=app).children == [app.AsyncResult("child")]
    assert str(StoredResult.objects.using(app.backend.alias).get().message_id) == message_id


@pytest.mark.parametrize(
    "options",
    [{"result_serializer": "pickle", "accept_content": ["pickle"]}, {"result_compression": "gzip"}],
    ids=["pickle", "gzip"],
)
def test_bytes_of_a_serialiser_are_stored_unchanged(app: Celery, options: dict[str, Any]) -> None:
    app.conf.update(options)
    value = {"a": list(range(100))}
    app.backend.store_result("t", value, states.SUCCESS)

    assert app.backend.get_task_meta("t", cache=False)["result"] == value


def test_what_cannot_be_stored_raises_what_celery_takes_for_a_failed_task(app: Celery, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_RESULT_BYTES": 1000}
    for value, words in (("x" * 1001, "MAX_RESULT_BYTES"), (object(), "JSON serializable")):
        with pytest.raises(EncodeError, match=words):
            app.backend.store_result("t", value, states.SUCCESS)
    assert app.AsyncResult("t").state == states.PENDING


def test_groups_are_saved_restored_and_deleted(app: Celery) -> None:
    group = GroupResult(
        "g", [app.AsyncResult("a"), GroupResult("inner", [app.AsyncResult("b")], app=app)], app=app
    )
    for _ in range(2):
        group.save()
    for task_id in "ab":
        app.backend.store_result(task_id, task_id, states.SUCCESS)

    restored = GroupResult.restore("g", app=app)
    assert restored == group
    assert restored.get() == ["a", ["b"]]

    group.delete()
    assert GroupResult.restore("g", app=app) is None


def test_results_groups_and_chords_expire(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = app.backend
    GroupResult("g", [app.AsyncResult("t")], app=app).save()
    backend.store_result("t", 1, states.SUCCESS)
    backend.set_chord_size("g", 2)
    backend.mark_as_done("t", 1, request("t", group="g", chord=app.signature("note")))
    store = shared_store(backend.alias)
    assert set(pruning.prune(store, 10).values()) == {0}

    monkeypatch.setattr(clock, "offset", timedelta(seconds=backend.expires + 1))
    assert backend.get_task_meta("t", cache=False)["status"] == states.PENDING
    assert GroupResult.restore("g", app=app) is None
    assert set(pruning.prune(store, 10).values()) == {1}


def test_a_program_gets_many_results_as_they_end(app: Celery) -> None:
    ids = {f"t{number}" for number in range(1200)}
    for task_id in ids:
        app.backend.store_result(task_id, task_id, states.SUCCESS)

    assert {task_id for task_id, meta in app.backend.get_many(ids) if meta["result"] == task_id} == ids
    with pytest.raises(ResultTimeout):
        app.AsyncResult("never").get(timeout=0)
    assert list(app.backend.get_many(["never"], max_iterations=1)) == []


def test_a_program_that_waits_reads_a_result_once_and_those_of_tasks_before_as_often_as_celery(
    app: Celery,
) -> None:
    header = [app.AsyncResult(f"t{number}") for number in range(50)]
    result = AsyncResult("body", app=app, parent=GroupResult("g", header, app=app))
    app.backend.store_result("body", 3, states.SUCCESS)

    with CaptureQueriesContext(connections[app.backend.alias]) as queries:
        assert result.get() == 3

    assert len([query for query in queries if "SELECT" in query["sql"]]) == len(header) + 1


def test_to_wait_in_the_transaction_that_publishes_is_refused(app: Celery) -> None:
    task, alias = app.tasks["note"], app.backend.alias
    with transaction.atomic(using=alias):
        first = task.delay()
        with transaction.atomic(using=alias):
            second = task.delay()
        for result in (first, second, GroupResult("g", [first, second], app=app)):
            with pytest.raises(WaitInTransaction, match=r"Call get\(\) after the transaction"):
                result.get()
        app.backend.store_result(first.id, 3, states.SUCCESS)
        assert first.get() == 3
    with transaction.atomic(using=alias), pytest.raises(ResultTimeout):
        second.get(timeout=0)


def test_a_clock_that_jumps_moves_expiries_and_no_timeout(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three days of jumps, where results are kept for one."""
    app.backend.store_result("now", 1, states.SUCCESS)
    monkeypatch.setattr(clock, "offset", timedelta(days=-3))
    app.backend.store_result("early", 2, states.SUCCESS)
    for days, found in ((-3, ["now", "early"]), (0, ["now"]), (3, [])):
        monkeypatch.setattr(clock, "offset", timedelta(days=days))

        assert [each for each in ("now", "early") if app.backend.task_result_exists(each)] == found
        with pytest.raises(ResultTimeout):
            app.AsyncResult("unknown").get(timeout=0.01)


def test_to_wait_in_a_task_is_refused_by_celery(app: Celery) -> None:
    app.backend.store_result("t", 1, states.SUCCESS)

    with denied_join_result(), pytest.raises(RuntimeError, match=r"Never call result.get\(\) within a task"):
        app.AsyncResult("t").get()
