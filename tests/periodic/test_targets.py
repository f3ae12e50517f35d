"""A tick publishes a message, a Celery task or a Django task; what is gone is named, and pauses the row."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery._state import _set_current_app, current_app
from celery.app.task import Context

from django_mq.api import Unique, cancel, consumer, publish
from django_mq.delivery.consumer.handlers import forget
from django_mq.engine.decisions.ends import RunOutcome
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import TargetGone
from django_mq.integrations.celery.checks import check_beat
from django_mq.integrations.celery.unique import UniqueTask
from django_mq.integrations.celery.url import register
from django_mq.models import Message
from django_mq.periodic import editor, releases
from django_mq.periodic.beat import published_too
from django_mq.periodic.declared import digest_of, follow
from django_mq.periodic.decorator import declaration_of
from django_mq.periodic.extension import find
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.periodic.publisher import check_target
from django_mq.periodic.values import USUAL
from django_mq.stores.registry import shared_store
from tests.integrations.tasks.conftest import use
from tests.periodic.conftest import a_row, look_now
from tests.stores.builders import claim, declare, open_session, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite")

HOUR = timedelta(hours=1)


@pytest.fixture
def app(alias: str) -> Iterator[Celery]:
    register()
    before = current_app._get_current_object()
    with Celery("unit", broker=f"django-mq:///{alias}") as made:
        made.task(name="note", shared=False)(note)
        yield made
    _set_current_app(before)


def note(n: int) -> int:
    """Return what it was given."""
    return n


def published(alias: str, row: PeriodicMessage, move: Callable[[timedelta], None]) -> Message:
    first = row.next_at
    move(timedelta(seconds=500))
    assert look_now(alias) == 1
    message = Message.objects.using(alias).get()
    run = PeriodicRun.objects.using(alias).get()
    assert (run.message_id, run.queue_name, run.due_at) == (message.message_id, message.queue.name, first)
    assert message.deliver_at == first
    assert message.told_to is not None
    assert "periodic" in message.told_to.split()
    return message


def test_a_celery_task_is_published_in_the_transaction_of_its_row(
    alias: str, app: Celery, move: Callable[[timedelta], None]
) -> None:
    row = a_row(alias, kind="celery", queue="", target="note", args=[7])

    assert published(alias, row, move).type == "note"


def test_a_django_task_is_published_in_the_transaction_of_its_row(
    alias: str, settings: Settings, move: Callable[[timedelta], None]
) -> None:
    use(settings)
    declare(shared_store(alias), "default")
    task = import_module("tests.integrations.tasks.work").add
    row = a_row(alias, kind="task", queue="", target=task.module_path, args=[1, 2])

    assert published(alias, row, move).type == task.module_path


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"target": "report.v2"}, "No handler of the queue 'reports' takes messages of the type 'report.v2'"),
        ({"kind": "celery", "queue": "", "target": "missing"}, "no Celery task 'missing'"),
        ({"kind": "task", "queue": "", "target": "nowhere.task"}, "no Django task"),
        ({"kind": "task", "queue": "", "target": "os.path.join"}, "no Django task"),
        ({"kind": "task", "queue": "", "target": ".."}, "no Django task"),
    ],
)
def test_a_target_that_is_gone_pauses_the_row(
    alias: str, app: Celery, move: Callable[[timedelta], None], values: dict[str, Any], words: str
) -> None:
    consumer("reports", type="report")(print)
    row = a_row(alias, **values)
    move(timedelta(seconds=500))
    look_now(alias)
    forget("reports")

    row.refresh_from_db()
    assert row.is_paused
    assert words in row.paused_reason
    assert Message.objects.using(alias).count() == 0
    row.target, row.kind, row.queue = "", "message", "reports"
    editor.save(row, using=alias)
    editor.resume(row)
    assert Message.objects.using(alias).count() == 1


def test_a_process_without_a_celery_app_leaves_tasks_to_others(
    alias: str, app: Celery, move: Callable[[timedelta], None]
) -> None:
    row = a_row(alias, kind="celery", queue="", target="elsewhere")
    move(timedelta(seconds=500))
    with Celery("default", broker=f"django-mq:///{alias}"):  # as is made where a project has none
        look_now(alias)
    row.refresh_from_db()
    assert not row.is_paused

    app.set_current()
    move(timedelta(seconds=6))
    look_now(alias)
    row.refresh_from_db()
    assert "no Celery task 'elsewhere'" in row.paused_reason


def test_a_django_task_of_another_backend_is_refused(alias: str, settings: Settings) -> None:
    use(settings)
    task = import_module("tests.integrations.tasks.work").add
    library = next(each.__module__ for each in type(task).__mro__ if not each.__module__.startswith("django_mq"))
    settings.TASKS = {"default": {"BACKEND": f"{library.rpartition('.')[0]}.backends.dummy.DummyBackend"}}

    with pytest.raises(TargetGone, match="another backend"):
        check_target(PeriodicMessage(kind="task", target=task.module_path), using=alias)


def test_a_worker_of_an_earlier_release_pauses_nothing_and_a_new_one_goes_on(
    alias: str, app: Celery, move: Callable[[timedelta], None]
) -> None:
    start = datetime.now(UTC) + timedelta(seconds=600)
    values = {**USUAL, "kind": "celery", "target": "later", "every_seconds": 3600.0, "start_at": start}
    newest = declaration_of("new", values)
    follow(alias, "code", [])
    follow(alias, "code", [newest])
    row = PeriodicMessage.objects.using(alias).get()
    releases.remember(alias, "code", "of an earlier release")
    move(HOUR)
    look_now(alias)
    assert list(PeriodicMessage.objects.using(alias).values_list("is_paused", "next_at")) == [(False, row.next_at)]
    move(HOUR)
    assert "is not published" in next(iter(find(alias))).sentence

    releases.remember(alias, "code", digest_of([newest]))
    look_now(alias)
    assert PeriodicMessage.objects.using(alias).get().is_gone
    app.task(name="later", shared=False)(note)
    follow(alias, "code", [newest, declaration_of("another", values | {"every_seconds": 60.0})])
    assert PeriodicMessage.objects.using(alias).filter(is_paused=False).count() == 2


def test_a_tick_whose_message_is_discarded_is_a_run_that_says_so(
    alias: str, app: Celery, move: Callable[[timedelta], None]
) -> None:
    """By a unique key that another message had, and still has or not, or by a full queue."""
    app.task(
        name="sole",
        base=UniqueTask,
        shared=False,
        acks_late=True,
        unique=Unique(until="window", seconds=1e6, second="drop"),
    )(note)
    app.task(name="strict", base=UniqueTask, shared=False, acks_late=True, unique=Unique())(note)
    for name in ("sole", "strict"):
        app.tasks[name].delay(7)
        a_row(alias, name=name, kind="celery", queue="", target=name, args=[7])
    cancel(Message.objects.using(alias).get(type="sole").message_id, using=alias)
    declare(shared_store(alias), "short", max_messages=1, overflow="drop")
    publish("short", 1, using=alias)
    a_row(alias, name="short", queue="short")
    move(timedelta(seconds=500))
    look_now(alias)

    runs = PeriodicRun.objects.using(alias).order_by("periodic__name")
    assert list(runs.values_list("periodic__name", "outcome", "message_id")) == [
        (name, "discarded", None) for name in ("short", "sole", "strict")
    ]


@pytest.mark.parametrize(
    ("acks_late", "overlap", "outcomes"),
    [
        (True, "skip", ["succeeded", "skipped", ""]),
        (False, "skip", ["succeeded", "skipped", ""]),
        (False, "replace", ["removed", "removed", ""]),
    ],
)
def test_the_run_of_a_task_that_is_retried_lasts_until_its_last_message_has_ended(
    alias: str,
    app: Celery,
    move: Callable[[timedelta], None],
    *,
    acks_late: bool,
    overlap: str,
    outcomes: list[str],
) -> None:
    store = shared_store(alias)
    declare(store, "celery")
    session = open_session(store, deadline_seconds=1e6)

    def begin() -> Any:
        [held] = claim(store, session, "celery")
        if not acks_late:
            settle(store, session, held, Verdict.BEGIN, told_to=held.told_to)
        return held

    def end(held: Any, outcome: RunOutcome) -> None:
        how = Verdict.ACCEPT if acks_late else Verdict.END
        assert not settle(store, session, held, how, told_to=held.told_to, outcome=outcome)

    def retry(held: Any) -> None:
        request = Context(json.loads(held.headers), args=[7], kwargs={}, delivery_info={"routing_key": "celery"})
        app.tasks["note"].signature_from_request(request, retries=1).apply_async()

    a_row(alias, kind="celery", queue="", target="note", args=[7], overlap=overlap)
    move(timedelta(seconds=601))
    look_now(alias)
    first = begin()
    retry(first)
    end(first, RunOutcome.RETRIED)
    retried = begin() if overlap == "skip" else None
    move(HOUR)
    look_now(alias)
    if retried is not None:
        end(retried, RunOutcome.SUCCEEDED)
    move(HOUR)
    look_now(alias)

    runs = PeriodicRun.objects.using(alias).order_by("due_at")
    assert [run.outcome for run in runs] == outcomes
    assert runs[0].message_id == first.message_id


def test_what_celery_beat_publishes_for_a_row_is_dropped_and_said(
    alias: str, app: Celery, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": alias}
    a_row(alias, kind="celery", queue="", target="note", args=[7])
    for name, task, more in (
        ("report", "note", {}),
        ("another", "note", {}),
        ("report", "other", {}),
        ("report", "note", {"retries": 1}),  # of a task that was published before the row was there
    ):
        app.send_task(task, (1,), headers={"periodic_task_name": name}, **more)

    assert Message.objects.using(alias).count() == 3
    assert PeriodicRun.objects.using(alias).get().outcome == "dropped"
    assert published_too(alias) == ["report"]
    assert "publishes it, too" in next(iter(find(alias))).sentence
    [warning] = check_beat([alias])
    assert (warning.id, "report" in warning.msg) == ("django_mq.W012", True)
