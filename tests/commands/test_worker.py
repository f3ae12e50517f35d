"""mq_worker, in processes of its own: signals, kills, and exact totals."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import connections
from django.utils import timezone

from django_mq.api import publish_many
from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.models import History, Message, Operation, Queue, WorkerSession
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.commands.conftest import Run, Shop

pytestmark = pytest.mark.on("sqlite", once="postgresql")

STATUS = Message.Status


def publish(alias: str, queue: str, number: int) -> None:
    declare(shared_store(alias), queue)
    publish_many([(queue, item) for item in range(number)])


def test_it_says_what_it_does_and_ends_when_nothing_is_left(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "orders", 30)

    worker = shop.start("--queues=orders", "--until-empty", "--name=picker", "--threads=3", "--credit-bytes=5000")
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert "picker consumes orders (credit 10, 5000 bytes) of database 'default' with 3 threads." in said
    assert sorted(map(int, shop.lines)) == list(range(30))
    assert History.objects.using(committed_database).count() == 30
    assert not WorkerSession.objects.using(committed_database).exists()


def test_async_handlers_run_beside_plain_ones_in_one_process(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "orders", 5)
    publish(committed_database, "awaited", 5)

    worker = shop.start(
        "--queues=orders,awaited", "--until-empty", "--name=picker", "--async-slots=7", "--async-threads=2"
    )
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert "picker consumes orders (credit 10) of database 'default' with 4 threads." in said
    assert "picker consumes awaited (credit 28) of database 'default' with 7 async slots." in said
    assert Counter(map(int, shop.lines)) == Counter([*range(5), *range(5)])
    assert not Message.objects.using(committed_database).exists()


def test_an_idle_worker_keeps_three_connections_to_postgresql(committed_database: str, shop: Shop) -> None:
    if connections[committed_database].vendor != "postgresql":
        pytest.skip("the connections of PostgreSQL are counted")
    declare(shared_store(committed_database), "orders")
    shop.environment["PGAPPNAME"] = "picker"
    shop.start("--queues=orders")

    def count(rows: str) -> int:
        with connections[committed_database].cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {rows}")
            return int(cursor.fetchone()[0])

    wait_until(lambda: count("django_mq_idle WHERE 'orders' = ANY(queues)"), "the worker to listen")
    of_the_worker = "pg_stat_activity WHERE application_name = 'picker'"
    wait_until(lambda: count(of_the_worker) == 3, lambda: f"3 connections, not {count(of_the_worker)}")


def test_a_child_that_a_handler_forks_ends_when_it_is_terminated(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "forking", 1)

    worker = shop.start("--queues=forking", "--until-empty")
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert shop.lines == [f"0 {-signal.SIGTERM}"]


@pytest.mark.once
def test_a_killed_workers_messages_are_finished_by_another_exactly(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 40)
    victim = shop.start("--queues=gated")
    shop.wait_for(4)
    assert Message.objects.using(committed_database).filter(state=STATUS.CLAIMED).count() == 4

    victim.kill()
    victim.wait()
    shop.gate.touch()
    heir = shop.start("--queues=gated")
    wait_until(lambda: not Message.objects.using(committed_database).exists(), "the heir to finish")
    heir.terminate()
    said, _ = heir.communicate(timeout=PATIENCE_SECONDS)

    assert heir.returncode == 0, said
    begun = Counter(map(int, shop.lines))
    assert set(begun) == set(range(40))
    # Exactly what was running when the worker was killed was begun twice.
    assert sum(begun.values()) == 44
    finished = History.objects.using(committed_database)
    assert finished.filter(outcome=History.Outcome.ACCEPTED).values("message_id").distinct().count() == 40
    assert finished.count() == 40


def test_the_first_signal_waits_for_what_runs(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 10)
    worker = shop.start("--queues=gated", "--threads=2")
    shop.wait_for(2)

    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: Message.objects.using(committed_database).filter(state=STATUS.READY).count() == 8)
    shop.gate.touch()
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert "Ending: waiting for 2 handlers; a second signal gives the messages back" in said
    assert History.objects.using(committed_database).count() == 2
    assert set(Message.objects.using(committed_database).values_list("state", "attempts")) == {(STATUS.READY, 0)}


def test_the_second_signal_gives_back_what_runs_and_ends_at_once(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 10)
    worker = shop.start("--queues=gated", "--threads=2")
    shop.wait_for(2)

    worker.send_signal(signal.SIGINT)
    wait_until(lambda: Message.objects.using(committed_database).filter(state=STATUS.READY).count() == 8)
    worker.send_signal(signal.SIGINT)
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 3, said
    rows = Message.objects.using(committed_database).values_list("state", "attempts")
    assert list(rows) == [(STATUS.READY, 0)] * 10
    assert not WorkerSession.objects.using(committed_database).exists()


def test_without_migrations_it_says_what_to_do(shop: Shop, tmp_path: object) -> None:
    shop.environment["DATABASE_URL"] = f"sqlite:///{tmp_path}/empty.sqlite3"

    worker = shop.start("--queues=orders")
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 1
    assert "run manage.py migrate" in said
    assert "Traceback" not in said


@pytest.fixture
def handled() -> Iterator[None]:
    """One queue has a handler."""
    consumer("handled")(print)
    yield
    forget("handled")


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--queues=handled,nowhere"], "No handler for 'nowhere'; there are handlers for .*handled"),
        (["--queues="], "No handler for ''"),
        (["--queues=handled", "--threads=0"], "--threads: must be 1 or more"),
        (["--queues=handled", "--database=elsewhere"], "There is no database 'elsewhere'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(run: Run, arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        run("mq_worker", *arguments)


@pytest.mark.usefixtures("handled")
def test_a_handler_of_an_unknown_queue_is_refused(committed_database: str, run: Run, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"handed": {}}}
    arguments = "mq_worker", "--queues=handled", "--until-empty", f"--database={committed_database}"

    with pytest.raises(CommandError, match=r"no queue 'handled'; declare it in .* Did you mean 'handed'\?"):
        run(*arguments)
    assert not Queue.objects.using(committed_database).exists()

    declare(shared_store(committed_database), "handled")
    assert "Ended." in run(*arguments)


@pytest.mark.usefixtures("handled")
def test_handlers_of_two_kinds_of_an_exclusive_queue_are_refused(committed_database: str, run: Run) -> None:
    async def ship(_: object) -> None: ...

    declare(shared_store(committed_database), "handled", {"exclusive": True})
    consumer("handled", selector="size > 5")(ship)

    with pytest.raises(CommandError, match=r"'handled' run in 2 workers .* give each a queue of its own"):
        run("mq_worker", "--queues=handled", "--until-empty", f"--database={committed_database}")


@pytest.mark.on("sqlite")
@pytest.mark.once
@pytest.mark.parametrize(
    "command", ["mq_worker --queues=gated --threads=1", "mq_maintenance --loop", "mq_maintenance"]
)
def test_what_a_web_process_has_left_is_done_beside_the_handlers(
    committed_database: str, shop: Shop, command: str
) -> None:
    User.objects.db_manager(committed_database).create_superuser("operator")
    publish(committed_database, "orders", 3)
    publish(committed_database, "gated", 1)
    operation = stalled_removal(committed_database, "orders")
    name, *arguments = command.split()

    shop.start(*arguments, command=name)
    if name == "mq_worker":
        shop.wait_for(1)  # its only thread waits for the gate

    def ended() -> bool:
        operation.refresh_from_db()
        return operation.status != Operation.Status.RUNNING

    wait_until(ended)
    assert (operation.status, operation.tried, operation.changed) == ("done", 3, 3)
    assert not Message.objects.using(committed_database).filter(queue__name="orders").exists()


def stalled_removal(alias: str, queue: str) -> Operation:
    """Return the removal of all messages of a queue, whose process has ended."""
    late = timezone.now() - timedelta(seconds=STALLED_SECONDS + 1)
    newest = Message.objects.using(alias).latest("id").id
    given = {"act": "cancel", "filters": {"queue": queue}, "user_name": "operator", "newest": newest}
    return Operation.objects.using(alias).create(runner=uuid4(), created_at=late, beat_at=late, **given)
