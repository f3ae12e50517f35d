"""A worker is killed while it declines, gives back or stops messages: nothing is lost or stuck."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import Effect, OutgoingMessage, cancel, pause, publish_many, resume
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.queues import declare
from django_mq.models import DeclinedMessage, History, Message, StopRequest
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    #: The environment of a process on the test's database.
    Environment = Callable[[str], dict[str, str]]

pytestmark = pytest.mark.on("postgresql")

SHORT = {"SESSION_SECONDS": 2, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
WORKER = f"""
import os, signal, sys, threading
import django
from django.conf import settings
settings.DJANGO_MQ = {{**settings.DJANGO_MQ, **{SHORT}}}
django.setup()
from django_mq.api import Decline
from django_mq.delivery.consumer.worker import Worker
from tests.delivery.builders import a_handler

def decline(message):
    if message.body == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    raise Decline

def hang(message):
    print("begun", flush=True)
    threading.Event().wait()

Worker([a_handler(globals()[sys.argv[1]])], threads=1).run()
"""


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **SHORT}
    declare(shared_store(committed_database), "orders")
    messages = [OutgoingMessage(queue="orders", body=number, group_key="a") for number in range(6)]
    publish_many(messages, using=committed_database)
    return committed_database


def a_worker(environment: dict[str, str], handler: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, handler]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def handled_by_another(alias: str, messages: int = 6) -> list[Any]:
    """Let a worker of this process handle everything; return what it was given, once each."""
    bodies: set[Any] = set()
    accepted = History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED)
    with running(a_handler(lambda message: bodies.add(message.body)), using=alias):
        wait_until(lambda: accepted.count() == messages)
    return sorted(bodies)


@pytest.mark.once
def test_a_worker_is_killed_while_it_declines(alias: str, process_environment: Environment) -> None:
    with a_worker(process_environment(alias), "decline") as worker:
        assert worker.wait(PATIENCE_SECONDS) == -signal.SIGKILL

    assert handled_by_another(alias) == [0, 1, 2, 3, 4, 5]
    assert not Message.objects.using(alias).exists()
    assert not DeclinedMessage.objects.using(alias).exists()


@pytest.mark.once
@pytest.mark.parametrize("grouping", ["none", "shared"])
@pytest.mark.parametrize("gives_back", [False, True], ids=["at once", "after it gave back"])
def test_a_worker_is_killed_while_it_gives_back(
    alias: str, process_environment: Environment, gives_back: bool, grouping: str
) -> None:
    edit_queue("orders", {"grouping": grouping}, using=alias)
    ready = Message.objects.using(alias).filter(state=Message.Status.READY)
    with a_worker(process_environment(alias), "hang") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "begun\n"
        pause("orders", using=alias)
        if gives_back:
            wait_until(lambda: ready.count() == 5)
        worker.kill()
    resume("orders", using=alias)

    assert handled_by_another(alias) == [0, 1, 2, 3, 4, 5]
    assert not Message.objects.using(alias).exists()


@pytest.mark.once
@pytest.mark.parametrize("hears", [False, True], ids=["before it hears of it", "after it has heard of it"])
def test_a_worker_is_killed_while_it_stops_what_was_cancelled(
    alias: str, process_environment: Environment, hears: bool
) -> None:
    ids = list(Message.objects.using(alias).order_by("id").values_list("message_id", flat=True))
    cancelled = History.objects.using(alias).filter(outcome=History.Outcome.CANCELLED)
    with a_worker(process_environment(alias), "hang") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "begun\n"
        if not hears:
            worker.send_signal(signal.SIGSTOP)
        answers = cancel(ids[:2], running=True, using=alias)  # the first runs, the other was not begun
        if hears:
            wait_until(lambda: cancelled.count() == 1)
        worker.kill()

    assert {answer.effect for answer in answers} == {Effect.STOPPING}
    assert handled_by_another(alias, 4) == [2, 3, 4, 5]
    assert set(cancelled.values_list("message_id", flat=True)) == set(ids[:2])
    assert not Message.objects.using(alias).exists()
    wait_until(lambda: not StopRequest.objects.using(alias).exists())
