"""What a worker has prefetched and not begun can be taken back; what it has begun stays."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_mq.acts.operators import of_site
from django_mq.acts.recorder import new_act
from django_mq.admin.messages.actions import BY_NAME
from django_mq.admin.operations import runner
from django_mq.api import OutgoingMessage, pause, publish, publish_many, purge, resume
from django_mq.delivery.operator.commands import send_command
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.operator.recalls import recalled
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.models import Consumer, History, Message, Operation, Queue, WorkerSession
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.delivery.consumer.worker import Worker

pytestmark = pytest.mark.on("sqlite", once="postgresql")

STATUS = Message.Status


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queue ``orders``, whose workers renew their sessions every second."""
    return prepare(committed_database, settings)


def prepare(alias: str, settings: Settings) -> str:
    short = {"POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2, "SESSION_SECONDS": 2}
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **short}
    declare(shared_store(alias), "orders")
    return alias


def numbers(alias: str, state: int) -> int:
    return Message.objects.using(alias).filter(state=state).count()


def finished(alias: str) -> int:
    return History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count()


class Slow:
    """A handler that ends when it may."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.may_end = threading.Event()

    def __call__(self, message: Any) -> None:
        self.begun.append(message.body)
        assert self.may_end.wait(PATIENCE_SECONDS)


@contextmanager
def a_busy_worker(alias: str, messages: int) -> Iterator[Slow]:
    """A worker of one thread that handles a message, and has prefetched the others."""
    slow = Slow()
    publish_many([("orders", number) for number in range(messages)])
    with running(a_handler(slow), using=alias, threads=1, name="busy"):
        wait_until(lambda: slow.begun and numbers(alias, STATUS.CLAIMED) == messages)
        try:
            yield slow
        finally:
            slow.may_end.set()


def test_a_pause_takes_back_what_has_not_begun(alias: str) -> None:
    with a_busy_worker(alias, 5) as slow:
        pause("orders")
        wait_until(lambda: numbers(alias, STATUS.READY) == 4)

        assert (slow.begun, numbers(alias, STATUS.CLAIMED)) == ([0], 1)
        resume("orders")
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 5)

    assert slow.begun == [0, 1, 2, 3, 4]


def test_a_purge_of_a_paused_queue_reaches_what_has_not_begun(alias: str) -> None:
    with a_busy_worker(alias, 5) as slow:
        pause("orders")
        wait_until(lambda: numbers(alias, STATUS.READY) == 4)

        assert purge("orders") == 4
        resume("orders")
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 1)

    assert slow.begun == [0]


def test_a_worker_with_free_slots_gets_what_another_has_not_begun(alias: str) -> None:
    other = Slow()
    other.may_end.set()
    with a_busy_worker(alias, 5) as slow, running(a_handler(other), using=alias, threads=2, name="free"):
        wait_until(lambda: finished(alias) == 4)

        assert (slow.begun, sorted(other.begun)) == ([0], [1, 2, 3, 4])


def wait_until_it_has_looked(alias: str, other: Worker) -> None:
    """Return when the busy worker has looked for free slots of the other worker, and could have given back."""
    wait_until(lambda: other.session.id is not None and Consumer.objects.using(alias).count() == 2)
    beat = WorkerSession.objects.using(alias).get(name="busy").heartbeat_at
    for _ in range(2):
        wait_until(lambda: WorkerSession.objects.using(alias).get(name="busy").heartbeat_at > beat)  # noqa: B023
        beat = WorkerSession.objects.using(alias).get(name="busy").heartbeat_at


@pytest.mark.parametrize("options", [{"strict": True}, {"max_in_flight": 50}], ids=str)
def test_a_worker_keeps_messages_that_not_any_other_may_begin(alias: str, options: dict[str, Any]) -> None:
    edit_queue("orders", options, using=alias)
    other = Slow()
    other.may_end.set()
    with a_busy_worker(alias, 5) as slow, running(a_handler(other), using=alias, threads=2) as free:
        wait_until_it_has_looked(alias, free)
        assert numbers(alias, STATUS.CLAIMED) == 5
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 5)

    assert (slow.begun, other.begun) == ([0, 1, 2, 3, 4], [])


def test_a_worker_that_does_not_want_them_has_no_free_slot_for_messages(alias: str) -> None:
    other = Slow()
    other.may_end.set()
    with (
        a_busy_worker(alias, 5) as slow,
        running(a_handler(other, selector="size = 1"), using=alias, threads=2) as free,
    ):
        wait_until_it_has_looked(alias, free)
        assert numbers(alias, STATUS.CLAIMED) == 5
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 5)

    assert (slow.begun, other.begun) == ([0, 1, 2, 3, 4], [])


def test_a_worker_alone_keeps_what_it_has_prefetched(alias: str) -> None:
    with a_busy_worker(alias, 5) as slow:
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 5)

    assert slow.begun == [0, 1, 2, 3, 4]
    assert not History.objects.using(alias).filter(redelivered=True).exists()


def test_shared_handlers_give_back_too(alias: str) -> None:
    slow = Slow()
    publish_many([("orders", number) for number in range(5)])
    with running(a_handler(slow, priority=1), a_handler(slow), using=alias, threads=1):
        wait_until(lambda: slow.begun and numbers(alias, STATUS.CLAIMED) == 5)
        pause("orders")
        wait_until(lambda: numbers(alias, STATUS.READY) == 4)
        slow.may_end.set()


def test_a_purge_reaches_what_has_not_begun_and_leaves_the_queue_as_it_was(alias: str) -> None:
    with a_busy_worker(alias, 5) as slow:
        assert purge("orders") == 4

        assert numbers(alias, STATUS.CLAIMED) == 1
        assert list(Queue.objects.using(alias).values_list("paused", "paused_reason", "paused_until")) == [
            (False, "", None)
        ]
        publish("orders", "later")
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 2)

    assert slow.begun == [0, "later"]


@pytest.mark.parametrize(("mode", "usual"), [(WorkerMode.WORK, "interested"), (WorkerMode.QUIET, "stopping")])
def test_a_worker_shows_when_it_has_given_back_and_a_purge_waits_no_longer(
    alias: str, mode: WorkerMode, usual: str
) -> None:
    with a_busy_worker(alias, 1):
        send_command(WorkerSession.objects.using(alias).get().pk, using=alias, mode=mode)
        states = Consumer.objects.using(alias).values_list("state", flat=True)
        wait_until(lambda: list(states.all()) == [usual])
        with recalled(["orders"], using=alias):
            assert list(states.all()) == ["paused"]
        wait_until(lambda: list(states.all()) == [usual])


def test_a_purge_keeps_the_pause_of_an_operator(alias: str) -> None:
    with a_busy_worker(alias, 5):
        pause("orders", reason="mine")

        assert purge("orders") == 4
        assert Queue.objects.using(alias).get(name="orders").paused_reason == "mine"


def test_an_operator_who_pauses_meanwhile_keeps_the_pause(alias: str) -> None:
    with a_busy_worker(alias, 5):
        with recalled(["orders"], using=alias):
            assert Queue.objects.using(alias).get(name="orders").paused_until  # if this process is killed
            pause("orders", reason="mine")

        assert Queue.objects.using(alias).get(name="orders").paused_reason == "mine"


def test_a_purge_does_not_wait_for_workers_that_hold_nothing_of_the_queue(alias: str) -> None:
    declare(shared_store(alias), "mails")
    publish_many([("mails", number) for number in range(3)])
    with a_busy_worker(alias, 1), CaptureQueriesContext(connections[alias]) as queries:
        assert purge("mails") == 3

    assert not any("paused_reason" in query["sql"] for query in queries)


def test_in_a_transaction_a_purge_takes_nothing_back(alias: str) -> None:
    with (
        a_busy_worker(alias, 5),
        transaction.atomic(using=alias),
        CaptureQueriesContext(connections[alias]) as queries,
    ):
        assert purge("orders") == 0

    assert not any("paused_reason" in query["sql"] for query in queries)


def test_a_cancel_by_ids_reaches_what_has_not_begun(alias: str) -> None:
    with a_busy_worker(alias, 5) as slow:
        ids = list(Message.objects.using(alias).order_by("id").values_list("message_id", flat=True))
        with pytest.raises(SystemExit):  # the first has begun
            call_command("mq_cancel", str(ids[0]), str(ids[2]), database=alias)
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 4)

    assert slow.begun == [0, 1, 3, 4]


@pytest.mark.parametrize("command", [["orders", "other", "--state=ready"], ["--to=other", "--queue=orders"]])
def test_a_move_reaches_what_has_not_begun(alias: str, command: list[str]) -> None:
    declare(shared_store(alias), "other")
    with a_busy_worker(alias, 5) as slow:
        call_command("mq_move", *command, database=alias)
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 1)

    assert slow.begun == [0]
    assert Message.objects.using(alias).filter(queue__name="other").count() == 4


@pytest.mark.django_db(transaction=True)
def test_an_operation_in_the_background_reaches_what_has_not_begun(
    django_user_model: Any, settings: Settings
) -> None:
    alias, admin = prepare("default", settings), django_user_model.objects.create_superuser("root")
    with a_busy_worker(alias, 5) as slow:
        operation = runner.begin(
            BY_NAME["cancel"], {"state": "2"}, {}, act=new_act(of_site(admin.get_username()), "message", "cancel")
        )
        wait_until(lambda: Operation.objects.using(alias).get(pk=operation.pk).status == Operation.Status.DONE)
        assert Operation.objects.using(alias).get(pk=operation.pk).changed == 4
        slow.may_end.set()
        wait_until(lambda: finished(alias) == 1)

    assert slow.begun == [0]


@pytest.fixture
def groups(alias: str) -> str:
    """The database with a queue ``grouped``, of which a worker with two threads holds three groups."""
    declare(shared_store(alias), "grouped", {"grouping": "shared"})
    bodies = [f"{key}{number}" for number in range(3) for key in "abc"]
    publish_many([OutgoingMessage(queue="grouped", body=body, group_key=body[0]) for body in bodies])
    return alias


def test_of_a_group_a_pause_takes_back_what_has_not_begun_and_its_order_stays(groups: str) -> None:
    slow = Slow()
    with running(a_handler(slow, queue="grouped"), using=groups, threads=2):
        wait_until(lambda: len(slow.begun) == 2 and numbers(groups, STATUS.CLAIMED) == 9)
        pause("grouped")
        wait_until(lambda: numbers(groups, STATUS.READY) == 7)
        resume("grouped")
        wait_until(lambda: numbers(groups, STATUS.CLAIMED) == 9)
        slow.may_end.set()
        wait_until(lambda: finished(groups) == 9)

    assert [[body for body in slow.begun if body[0] == key] for key in "abc"] == [
        [f"{key}{number}" for number in range(3)] for key in "abc"
    ]


def test_a_purge_reaches_what_has_not_begun_of_groups(groups: str) -> None:
    slow = Slow()
    with running(a_handler(slow, queue="grouped"), using=groups, threads=2):
        wait_until(lambda: len(slow.begun) == 2 and numbers(groups, STATUS.CLAIMED) == 9)
        assert purge("grouped") == 7
        publish("grouped", "a3", group_key="a")
        slow.may_end.set()
        wait_until(lambda: finished(groups) == 3)

    assert sorted(slow.begun) == ["a0", "a3", "b0"]


def test_a_worker_with_free_slots_gets_whole_groups_that_another_has_not_begun(groups: str) -> None:
    slow, other = Slow(), Slow()
    other.may_end.set()
    with running(a_handler(slow, queue="grouped"), using=groups, threads=1):
        wait_until(lambda: slow.begun and numbers(groups, STATUS.CLAIMED) == 9)
        with running(a_handler(other, queue="grouped"), using=groups, threads=2):
            wait_until(lambda: finished(groups) == 6)
            assert slow.begun == ["a0"]
            slow.may_end.set()
            wait_until(lambda: finished(groups) == 9)

    for key in "bc":
        assert [body for body in other.begun if body[0] == key] == [f"{key}{number}" for number in range(3)]
    assert [body for body in [*slow.begun, *other.begun] if body[0] == "a"] == ["a0", "a1", "a2"]
