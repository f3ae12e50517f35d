"""Tasks of Django's own interface: enqueued with the transaction, run by our worker, results from anywhere."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils import timezone

from django_mq import conf, signals
from django_mq.api import publish
from django_mq.delivery.consumer.handlers import handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.operator.redrives import redrive
from django_mq.engine.decisions.ends import ON_DEAD
from django_mq.engine.decisions.interruption import Interruption
from django_mq.errors import ConfigurationError, MessageRemoved, UnknownTask, WorkerLost
from django_mq.models import Attempt, History, Message, Queue, TaskResult
from django_mq.periodic.publisher import LISTENING
from django_mq.seams.extension import Extension
from django_mq.stores.records import WORKER_LOST, ClaimRequest, Failure, SessionInfo
from django_mq.stores.registry import shared_store
from tests.integrations.tasks.conftest import use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.seams.middleware import Execution, Proceed, Publication

    Run = Callable[[], None]

pytestmark = pytest.mark.on("sqlite", once="postgresql")

WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")


def test_a_task_is_run_and_its_value_is_kept(work: Any, run: Run) -> None:
    result = work.add.enqueue(1, two=2)
    assert (result.status, result.is_finished, result.attempts) == ("READY", False, 0)

    run()
    result.refresh()

    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 3, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert work.add.get_result(result.id) == result
    assert work.ran == [(1, 2)]


def test_a_task_has_the_middleware_around_its_publish_and_its_run(work: Any, run: Run) -> None:
    told: list[tuple[str, Any]] = []

    def publish(publication: Publication, proceed: Proceed) -> None:
        told.extend(("published", message.type) for message in publication.messages)
        proceed()

    def process(execution: Execution, proceed: Proceed) -> Any:
        told.append(("runs", execution.message.type))
        return proceed()

    conf.add_extension(Extension(name="test", middleware=(SimpleNamespace(publish=publish, process=process),)))
    try:
        work.add.enqueue(1, two=2)
        run()
    finally:
        conf.remove_extension("test")

    name = work.add.module_path
    assert told == [("published", name), ("runs", name)]
    assert work.ran == [(1, 2)]


@pytest.mark.on("postgresql", "mariadb")
@pytest.mark.parametrize("fails", [False, True])
def test_the_outcome_is_written_over_a_new_connection_if_the_server_has_ended_the_old(
    alias: str, work: Any, run: Run, fails: bool
) -> None:
    if connections[alias].vendor == "sqlite":
        pytest.skip("no server ends a connection")
    Queue.objects.using(alias).update(max_attempts=1)
    result = work.lose_the_connection.enqueue(alias, fails)

    run()
    result.refresh()

    assert work.ran == ["work"]
    assert (result.status, result.attempts) == ("FAILED" if fails else "SUCCESSFUL", 1)
    assert [error.exception_class_path.rpartition(".")[2] for error in result.errors] == ["PaymentError"] * fails


def test_enqueueing_is_one_statement_of_the_callers_transaction(alias: str, work: Any) -> None:
    work.add.enqueue(0)
    with transaction.atomic(using=alias):
        with CaptureQueriesContext(connections[alias]) as statements:
            lost = work.add.enqueue(1)
        transaction.set_rollback(True, using=alias)

    assert len(statements) == 1
    assert Message.objects.using(alias).count() == 1
    with pytest.raises(LookupError):
        find(work, lost.id)


def test_an_outcome_is_one_statement(alias: str, work: Any, run: Run) -> None:
    seen: list[str] = []
    stack = ExitStack()

    def begin(**_: Any) -> None:
        connections[alias].ensure_connection()
        statements = stack.enter_context(CaptureQueriesContext(connections[alias]))
        stack.callback(lambda: seen.extend(each["sql"] for each in statements.captured_queries))

    work.add.enqueue(1)
    with receivers(task_started=begin, task_finished=lambda **_: stack.close()):
        run()

    assert [statement.split()[0] for statement in seen] == ["INSERT"]


def find(work: Any, result_id: str) -> Any:
    """Return a result. Raises LookupError."""
    from django_mq.integrations.tasks.compat import TaskResultDoesNotExist

    try:
        return work.add.get_backend().get_result(result_id)
    except TaskResultDoesNotExist as missing:
        raise LookupError(result_id) from missing


@pytest.mark.parametrize("result_id", ["", "7", "\x00", str(UUID(int=7))])
def test_an_id_that_nobody_has_is_said_to_be_none(work: Any, result_id: str) -> None:
    with pytest.raises(LookupError):
        find(work, result_id)


def test_a_coroutine_is_a_task_and_async_code_enqueues(work: Any, run: Run) -> None:
    result = async_to_sync(work.later.aenqueue)({"a": [1, None, "\x00\ud800"]})

    run()
    async_to_sync(result.arefresh)()

    assert result.return_value == {"a": [1, None, "\x00\ud800"]}


async def signed_up(request: HttpRequest) -> HttpResponse:
    """An async view that enqueues."""
    from tests.integrations.tasks import work

    result = await work.later.aenqueue(request.GET["name"])
    return HttpResponse(result.id)


urlpatterns = [path("sign-up", signed_up)]


def test_an_async_view_enqueues(work: Any, run: Run, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__

    answer = async_to_sync(AsyncClient().get)("/sign-up", {"name": "ann"})
    run()

    assert find(work, answer.content.decode()).return_value == "ann"


def test_a_task_enqueues_another_in_its_own_transaction(
    alias: str, work: Any, run: Run, settings: Settings
) -> None:
    use(settings, TRANSACTIONAL=True)
    kept = work.enqueue_another.enqueue(fails=False)
    lost = work.enqueue_another.enqueue(fails=True)

    run()

    kept.refresh()
    lost.refresh()
    assert (kept.status, lost.status) == ("SUCCESSFUL", "FAILED")
    assert find(work, kept.return_value).status == "SUCCESSFUL"
    assert work.ran == [("another", False)]


def test_a_queue_that_the_backend_does_not_have_is_refused(alias: str, work: Any) -> None:
    from django_mq.integrations.tasks.compat import InvalidTask

    with pytest.raises(InvalidTask, match="elsewhere"):
        work.add.using(queue_name="elsewhere")

    assert not Message.objects.using(alias).exists()


def test_a_task_that_fails_is_tried_again_and_keeps_its_errors(work: Any, run: Run) -> None:
    result = work.which_attempt.enqueue(2)

    run()
    result.refresh()

    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 2, 2)
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert "attempt 1 of 2" in error.traceback


def test_a_task_that_fails_every_time_has_failed(alias: str, work: Any, run: Run) -> None:
    result = work.which_attempt.enqueue(99)

    run()
    result.refresh()

    assert (result.status, result.attempts, len(result.errors)) == ("FAILED", 3, 3)
    assert result.finished_at
    assert Message.objects.using(alias).get().state == Message.Status.DEAD
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


@pytest.mark.parametrize("transactional", [False, True])
def test_a_task_that_is_cancelled_while_it_runs_has_failed(
    alias: str, work: Any, run: Run, settings: Settings, transactional: bool
) -> None:
    use(settings, TRANSACTIONAL=transactional)

    def cancelled(message: ReceivedMessage, **_: Any) -> None:
        message.end_request.ask(Interruption.CANCELLED)

    result = work.which_attempt.enqueue(99)

    signals.attempt_started.connect(cancelled)
    try:
        run()
    finally:
        signals.attempt_started.disconnect(cancelled)
    result.refresh()

    assert (result.status, len(result.errors)) == ("FAILED", 1)
    assert History.objects.using(alias).get().outcome == History.Outcome.CANCELLED


def test_a_rolled_back_attempt_is_in_the_result_all_the_same(
    alias: str, work: Any, run: Run, settings: Settings
) -> None:
    use(settings, TRANSACTIONAL=True)
    Queue.objects.using(alias).update(backoff_seconds=7200)
    result = work.which_attempt.enqueue(3)

    run()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == ("READY", 1, 1)
    assert result.errors[0].exception_class is ValueError

    Queue.objects.using(alias).update(backoff_seconds=0)
    Message.objects.using(alias).update(state=Message.Status.READY, deliver_at=None)
    run()
    result.refresh()

    assert (result.status, result.return_value) == ("SUCCESSFUL", 3)
    assert (result.attempts, len(result.errors)) == (3, 2)


def test_a_task_whose_attempts_are_all_rolled_back_has_failed(
    alias: str, work: Any, run: Run, settings: Settings
) -> None:
    use(settings, TRANSACTIONAL=True)
    result = work.which_attempt.enqueue(99)

    run()
    result.refresh()

    assert (result.status, result.attempts, len(result.errors)) == ("FAILED", 3, 3)


def test_what_was_dead_and_is_tried_again_may_succeed(alias: str, work: Any, run: Run) -> None:
    result = work.which_attempt.enqueue(5)
    run()

    redrive("default", using=alias)
    result.refresh()
    assert result.status == "READY"
    run()
    result.refresh()

    assert (result.status, result.return_value) == ("SUCCESSFUL", 5)


def test_what_comes_back_from_a_dead_letter_queue_knows_its_earlier_attempts(
    alias: str, work: Any, run: Run
) -> None:
    edit_queue("default", {"max_attempts": 1, "dead_letter_queue": "mails"}, using=alias)
    result = work.which_attempt.enqueue(2)
    run_only_default(run, work)

    redrive("mails", using=alias)
    run_only_default(run, work)
    result.refresh()

    assert (result.status, result.return_value, len(result.errors)) == ("SUCCESSFUL", 2, 1)


def test_a_task_in_a_dead_letter_queue_has_failed_too(alias: str, work: Any, run: Run) -> None:
    letters = Queue.objects.using(alias).get(name="mails")
    Queue.objects.using(alias).filter(name="default").update(dead_letter_queue=letters)
    result = work.refuse.enqueue()

    run_only_default(run, work)
    result.refresh()

    assert (result.status, result.attempts) == ("FAILED", 1)
    assert "never again" in result.errors[0].traceback


def run_only_default(run: Run, work: Any) -> None:
    from django_mq.integrations.tasks.running import serve_all

    serve_all()
    Worker([handler_of("default")], threads=1).run(until_empty=True)


@pytest.mark.parametrize("is_transactional", [False, True], ids=["own connection", "transactional"])
def test_errors_name_the_exception_of_each_attempt(
    alias: str, work: Any, run: Run, settings: Settings, is_transactional: bool
) -> None:
    use(settings, TRANSACTIONAL=is_transactional)
    refused, missing = work.pay.enqueue("refused"), work.pay.enqueue("missing")

    run()
    refused.refresh()
    missing.refresh()

    assert [error.exception_class for error in refused.errors] == [work.PaymentError] * 3
    assert {error.exception_class_path for error in missing.errors} == {
        "django_mq.models.queue.Queue.DoesNotExist"
    }


def test_errors_include_attempts_whose_worker_died_after_another_failure(alias: str, work: Any, run: Run) -> None:
    Queue.objects.using(alias).update(backoff_seconds=7200)
    result = work.pay.enqueue("refused")
    run()

    shared_store(alias).settlements.record_attempt(
        WORKER_LOST, queue_name="default", number=2, worker="killed", message_id=UUID(result.id)
    )
    result.refresh()

    assert [error.exception_class for error in result.errors] == [work.PaymentError, WorkerLost]
    assert (result.attempts, result.worker_ids[-1]) == (2, "killed")


def test_an_attempt_of_an_earlier_release_is_named_by_its_class_and_no_other(alias: str, work: Any) -> None:
    result = work.pay.enqueue("refused")
    about = {"queue_name": "default", "worker": "w", "message_id": UUID(result.id)}
    for number, name in enumerate(["PaymentError", "ValueError", "WorkerLost"], start=1):
        shared_store(alias).settlements.record_attempt(Failure(name), number=number, **about)

    result.refresh()

    named = [error.exception_class_path for error in result.errors]
    assert named == ["PaymentError", "builtins.ValueError", "django_mq.errors.WorkerLost"]


@contextmanager
def receivers(**by_signal: Any) -> Iterator[None]:
    """Connect a receiver to each of these signals of tasks."""
    from django_mq.integrations.tasks import compat

    for name, receiver in by_signal.items():
        getattr(compat, name).connect(receiver)
    try:
        yield
    finally:
        for name, receiver in by_signal.items():
            getattr(compat, name).disconnect(receiver)


class BrokenError(Exception):
    """What a receiver raises."""


def test_enqueue_raises_what_a_receiver_raises_as_with_django_s_dummy_backend(
    alias: str, work: Any, settings: Settings
) -> None:
    from django_mq.integrations.tasks import compat

    def fail(**_: Any) -> None:
        raise BrokenError

    backends = compat.BaseTaskBackend.__module__.rpartition(".")[0]
    settings.TASKS = {**settings.TASKS, "dummy": {"BACKEND": f"{backends}.dummy.DummyBackend"}}
    with receivers(task_enqueued=fail):
        for backend in ("default", "dummy"):
            with pytest.raises(BrokenError):
                work.which_attempt.using(backend=backend).enqueue(1)

    assert Message.objects.using(alias).count() == 1


def break_down(**_: Any) -> None:
    raise BrokenError


@pytest.mark.parametrize(
    ("what", "broken"),
    [
        *((value, ()) for value in ("set", "date", "bytes", "list as key", "tuple", "number as key", "plain")),
        ("plain", ("task_finished",)),
        ("set", ("task_finished",)),
    ],
)
def test_a_task_that_has_run_ends_as_with_djangos_own_backend(
    work: Any, run: Run, settings: Settings, what: str, broken: tuple[str, ...]
) -> None:
    from django_mq.integrations.tasks import compat

    own = {"BACKEND": f"{compat.BaseTaskBackend.__module__.rpartition('.')[0]}.immediate.ImmediateBackend"}
    heard: list[Any] = []
    results = []

    def hear(task_result: Any, **_: Any) -> None:
        value = task_result.return_value if task_result.status == "SUCCESSFUL" else None
        kinds = [error.exception_class_path for error in task_result.errors]
        heard.append((task_result.status, json.dumps(value), kinds))

    with receivers(task_finished=hear), receivers(**dict.fromkeys(broken, break_down)):
        for is_transactional in (False, True):
            use(settings, TRANSACTIONAL=is_transactional)
            settings.TASKS = settings.TASKS | {"own": own}
            with suppress(BrokenError):
                work.give.using(backend="own").enqueue(what)
            results.append(work.give.enqueue(what))
            run()

    assert work.ran == [what] * 4
    assert heard == [heard[0]] * 4
    status, _, kinds = heard[0]
    for result in results:
        result.refresh()
        assert (result.status, len(result.errors)) == (status, len(kinds))
        assert all(issubclass(error.exception_class, TypeError | ValueError) for error in result.errors)
        assert Message.objects.filter(message_id=result.id).exists() == (status == "FAILED")


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_task_whose_value_cannot_be_read_is_not_repeated(
    work: Any, run: Run, settings: Settings, is_transactional: bool
) -> None:
    use(settings, TRANSACTIONAL=is_transactional)
    result = work.give.enqueue("unreadable")
    run()
    result.refresh()

    assert (work.ran, result.status) == (["unreadable"], "FAILED")
    assert "LookupError: gone" in result.errors[0].traceback


def test_task_finished_is_sent_whatever_a_function_of_on_commit_raises(
    alias: str, work: Any, run: Run, settings: Settings
) -> None:
    heard: list[Any] = []
    use(settings, TRANSACTIONAL=True)
    with receivers(task_finished=lambda task_result, **_: heard.append(task_result.status)):
        work.break_after_the_commit.enqueue(alias)
        run()

    assert heard == ["SUCCESSFUL"]


def test_a_task_does_not_run_if_a_receiver_of_task_started_fails(work: Any, run: Run) -> None:
    with receivers(task_started=break_down):
        result = work.give.enqueue("plain")
        run()
    result.refresh()

    assert work.ran == []
    assert (result.status, [error.exception_class for error in result.errors]) == ("FAILED", [BrokenError] * 3)


@pytest.mark.parametrize("uses_zones", [True, False], ids=["USE_TZ", "without USE_TZ"])
def test_times_of_results_compare_with_those_of_django(
    alias: str, work: Any, run: Run, settings: Settings, uses_zones: bool
) -> None:
    settings.USE_TZ, settings.TIME_ZONE = uses_zones, "Europe/Berlin"
    told: list[Any] = []
    with receivers(task_finished=lambda task_result, **_: told.append(task_result)):
        results = [work.add.enqueue(1), work.refuse.enqueue()]
        run()
    results += [work.add.enqueue(2), work.add.enqueue(3)]
    store, cancelled = shared_store(alias), Message.objects.using(alias).get(message_id=results[2].id)
    store.operations.cancel([cancelled.pk])
    store.claims.claim(
        store.sessions.open(WORKER, deadline_seconds=60), ClaimRequest(queues=("default",), credit=1)
    )

    names = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")
    found = [find(work, result.id) for result in results]
    times = [time for each in (*results, *told, *found) for name in names if (time := getattr(each, name))]

    assert [result.status for result in found] == ["SUCCESSFUL", "FAILED", "FAILED", "RUNNING"]
    assert len(times) == 4 + 2 * 4 + (4 + 4 + 2 + 3)
    assert all(abs(timezone.now() - time) < timedelta(minutes=30) for time in times)


def test_two_backends_of_a_queue_with_other_options_are_refused(work: Any, settings: Settings) -> None:
    from django_mq.integrations.tasks.compat import task_backends
    from django_mq.integrations.tasks.running import serve_all

    ours = settings.TASKS["default"]

    def other(queue: str, **options: Any) -> None:
        settings.TASKS = {"default": ours, "other": ours | {"QUEUES": ["rare", queue], "OPTIONS": options}}

    for options in ({"TIME_LIMIT_SECONDS": 1}, {"TRANSACTIONAL": True}, {"CREDIT": 7}):
        other("mails", **options)
        (found,) = [message for alias in task_backends for message in task_backends[alias].check()]
        assert (found.id, f"{next(iter(options))} is" in found.msg) == ("django_mq.E008", True)
        assert "'default'" in found.msg
        assert "'mails'" in found.msg
        with pytest.raises(ConfigurationError, match="each a queue of its own"):
            serve_all()

    for queue, options in (("mails", {"RESULT_DAYS": 1}), ("often", {"TIME_LIMIT_SECONDS": 1})):
        other(queue, **options)
        assert not [message for alias in task_backends for message in task_backends[alias].check()]


def test_arguments_that_json_cannot_say_are_refused_before_anything_is_written(alias: str, work: Any) -> None:
    with pytest.raises(TypeError):
        work.add.enqueue(object())

    assert not Message.objects.using(alias).exists()


@pytest.mark.parametrize(
    ("given", "ours"), [(-100, 0), (-26, 2), (-25, 3), (-1, 3), (0, 4), (1, 5), (20, 5), (21, 6), (100, 9)]
)
def test_priorities_keep_their_order(alias: str, work: Any, given: int, ours: int) -> None:
    result = work.add.using(priority=given).enqueue(1)

    assert Message.objects.using(alias).get().priority == ours
    result.refresh()
    assert find(work, result.id).task.priority == given


def test_a_task_runs_not_before_its_time(alias: str, work: Any, run: Run) -> None:
    due = timezone.now() + timedelta(hours=1)
    result = work.add.using(run_after=due).enqueue(1)

    run()
    result.refresh()

    assert result.status == "READY"
    assert Message.objects.using(alias).get().deliver_at == due
    assert find(work, result.id).task.run_after == due
    assert work.ran == []


def test_a_task_that_a_worker_holds_is_running(alias: str, work: Any) -> None:
    result = work.add.enqueue(1)
    store = shared_store(alias)
    store.claims.claim(
        store.sessions.open(WORKER, deadline_seconds=60), ClaimRequest(queues=("default",), credit=1)
    )

    result.refresh()

    assert (result.status, result.worker_ids, result.attempts) == ("RUNNING", ["w"], 1)
    assert result.last_attempted_at


def expire(store: Any) -> None:
    Message.objects.using(store.alias).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert store.maintenance.expire() == 1


#: What removes the message of a task before its first attempt, by the word of the error.
REMOVALS: dict[str, Callable[[Any], object]] = {
    "cancelled": lambda store: store.operations.cancel([Message.objects.using(store.alias).get().pk]),
    "purged": lambda store: store.deletions.purge("default"),
    "expired": expire,
}


@pytest.mark.parametrize("word", REMOVALS)
@pytest.mark.parametrize("history_days", [0, 7])
def test_a_task_that_was_removed_has_failed_and_says_why(
    alias: str, work: Any, word: str, history_days: int
) -> None:
    Queue.objects.using(alias).update(history_days=history_days)
    result = work.add.enqueue(1)
    REMOVALS[word](shared_store(alias))

    result.refresh()

    assert (result.status, result.errors[0].exception_class) == ("FAILED", MessageRemoved)
    assert word in result.errors[0].traceback
    assert (result.args, result.started_at, result.finished_at is None) == ([1], None, False)


#: What is told of ends in every project.
ALWAYS = {ON_DEAD, LISTENING, "unique", "durable", "replies", "workflows", "batches", "chords"}


def test_ends_are_told_only_where_tasks_are_ours(settings: Settings) -> None:
    ours = "django_mq.integrations.tasks.MQBackend"
    for backends, names in (
        ({}, []),
        ({"default": {"BACKEND": ours}}, ["tasks"]),
        ({"a": {"BACKEND": "no.such"}}, []),
    ):
        settings.TASKS = backends
        assert [each.name for each in conf.extensions().ends if each.name not in ALWAYS] == names


def test_a_task_that_was_removed_after_an_attempt_keeps_its_error(alias: str, work: Any, run: Run) -> None:
    Queue.objects.using(alias).update(max_attempts=2, backoff_seconds=1000)
    result = work.which_attempt.enqueue(2)
    run()
    REMOVALS["purged"](shared_store(alias))

    result.refresh()

    assert (result.status, [each.exception_class for each in result.errors]) == ("FAILED", [ValueError])


def test_a_task_that_had_succeeded_is_not_run_again(alias: str, work: Any, run: Run) -> None:
    result = work.add.enqueue(1)
    message = Message.objects.using(alias).get()
    run()
    work.ran.clear()

    # As after a worker's death between the result and the acknowledgement.
    message.redelivered = True
    message.save(using=alias, force_insert=True)
    run()

    assert work.ran == []
    assert not Message.objects.using(alias).exists()
    result.refresh()
    assert result.return_value == 1


#: Names that lead elsewhere than to a task, and bodies that are none.
HOSTILE = [
    "os.system",
    "antigravity.fly",
    f"{__package__}.work.no_task",
    "nowhere.f",
    "f",
    "..",
    "a b.c",
]
NONSENSE = [None, 7, [], {}, {"task": 1}, {"task": "a.b", "args": {}, "kwargs": []}]


def test_a_message_leads_to_tasks_and_to_nothing_else(alias: str, work: Any, run: Run) -> None:
    Queue.objects.using(alias).update(max_attempts=1)
    rest = {"args": ["touch x"], "kwargs": {}, "priority": 0, "backend": "default"}
    published = [publish("default", {"task": name, **rest}, using=alias) for name in HOSTILE]
    published += [publish("default", body, using=alias) for body in NONSENSE]

    run()

    dead = Message.objects.using(alias).filter(state=Message.Status.DEAD, message_id__in=published)
    assert dead.count() == len(published)
    assert set(Attempt.objects.using(alias).values_list("error", flat=True)) == {UnknownTask.__name__}
    assert (work.ran, "antigravity" in sys.modules) == ([], False)
    for message_id in published:
        with pytest.raises(LookupError):
            find(work, str(message_id))


def test_every_step_is_told(work: Any, run: Run) -> None:
    told: list[tuple[str, str]] = []

    def hear(signal: str) -> Any:
        return lambda task_result, **_: told.append((signal, str(task_result.status)))

    with receivers(**{name: hear(name) for name in ("task_enqueued", "task_started", "task_finished")}):
        work.which_attempt.enqueue(2)
        run()

    started = ("task_started", "RUNNING")
    assert told == [("task_enqueued", "READY"), started, started, ("task_finished", "SUCCESSFUL")]


def test_a_transactional_task_and_its_result_are_one(alias: str, work: Any, run: Run, settings: Settings) -> None:
    use(settings, TRANSACTIONAL=True)
    succeeds, fails = work.add.enqueue(1), work.which_attempt.enqueue(99)

    run()

    succeeds.refresh()
    fails.refresh()
    assert (succeeds.status, fails.status) == ("SUCCESSFUL", "FAILED")
    assert TaskResult.objects.using(alias).count() == 1
    assert fails.errors[0].exception_class is ValueError


def test_results_are_pruned_when_their_time_is_over(alias: str, work: Any, run: Run) -> None:
    old, new = work.add.enqueue(1), work.add.enqueue(2)
    run()
    past = datetime(2001, 1, 1, tzinfo=UTC)
    TaskResult.objects.using(alias).filter(pk=old.id).update(expires_at=past)

    shared_store(alias).retention.prune()

    assert str(TaskResult.objects.using(alias).get().pk) == new.id
    with pytest.raises(LookupError):
        old.refresh() if History.objects.using(alias).count() < 2 else find(work, old.id)


def test_a_queue_that_is_not_there_yet_is_declared(alias: str, work: Any) -> None:
    Queue.objects.using(alias).all().delete()

    work.mail.enqueue("a@b")

    assert Queue.objects.using(alias).get().name == "mails"


@pytest.mark.parametrize(
    ("queues", "options", "said"),
    [
        ([], {}, "QUEUES is empty"),
        (["x" * 300], {}, "cannot be a queue"),
        (["n\x00ll"], {}, "cannot be a queue"),
        (["a"], {"CREDITS": 1}, "OPTIONS has no 'CREDITS'"),
        (["a"], {"CREDIT": 0}, "CREDIT is 0"),
        (["a"], {"TIME_LIMIT_SECONDS": "soon"}, "time_limit_seconds is 'soon'"),
        (["a"], {"TIME_LIMIT_SECONDS": 1, "SOFT_TIME_LIMIT_SECONDS": 2}, "has to be the shorter one"),
        (["a"], {"RESULT_DAYS": -1}, "RESULT_DAYS is -1"),
    ],
)
def test_settings_that_make_no_sense_are_found_by_a_check(
    settings: Settings, queues: list[str], options: dict[str, Any], said: str
) -> None:
    from django_mq.integrations.tasks import MQBackend

    (found,) = MQBackend("default", {"QUEUES": queues, "OPTIONS": options}).check()

    assert said in found.msg
    assert (found.id, bool(found.hint)) == ("django_mq.E008", True)
