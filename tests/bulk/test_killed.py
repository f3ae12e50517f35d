"""A worker is killed in the middle of a bulk: nothing is lost, stuck, or done twice, and no message is charged."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from django_mq.api import OutgoingMessage, publish_many
from django_mq.delivery.queues import declare
from django_mq.models import Attempt, History, Message, Queue
from django_mq.stores.registry import shared_store
from tests.bulk.test_bulk import Calls, handling, wait_until_empty
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    #: The environment of a process on the test's database.
    Environment = Callable[[str], dict[str, str]]

pytestmark = pytest.mark.on("postgresql")

SHORT = {"SESSION_SECONDS": 2, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
WORKER = f"""
import os, signal, sys
import django
from dataclasses import replace
from django.conf import settings
settings.DJANGO_MQ = {{**settings.DJANGO_MQ, **{SHORT}}}
django.setup()
from django.db import transaction
from django_mq.bulk.pool import pool_for
from django_mq.delivery.consumer.worker import Worker
from django_mq.models import Queue
from tests.delivery.builders import a_handler

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def handle(messages):
    for message in messages:
        Queue.objects.create(name=f"booked {{message.body}}", kind="fifo")
        if sys.argv[1] in ("inside", "poison") and message.body == 5:
            die()
    if sys.argv[1] == "half":
        if len(messages) > 4:
            raise ValueError("too many")
        if messages[0].body == 3:
            die()
    if sys.argv[1] == "after":
        transaction.on_commit(die)

handler = replace(a_handler(handle, credit=0, transactional=True), bulk=10, bulk_seconds=0.1)
Worker([handler], threads=10, pool=pool_for(handler)).run()
"""


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **SHORT}
    declare(shared_store(committed_database), "orders")
    messages = [OutgoingMessage(queue="orders", body=number) for number in range(10)]
    publish_many(messages, using=committed_database)
    return committed_database


def killed(environment: dict[str, str], where: str) -> None:
    """Let a worker of another process run until it kills itself."""
    with subprocess.Popen([sys.executable, "-c", WORKER, where], env=environment) as worker:
        assert worker.wait(PATIENCE_SECONDS) == -signal.SIGKILL


def booked(alias: str) -> list[int]:
    names = Queue.objects.using(alias).filter(name__startswith="booked").values_list("name", flat=True)
    return sorted(int(name.removeprefix("booked ")) for name in names)


@pytest.mark.once
@pytest.mark.parametrize(
    ("where", "before"),
    [
        pytest.param("inside", 0, id="inside"),
        pytest.param("half", 3, id="half", marks=pytest.mark.once),
        pytest.param("after", 10, id="after", marks=pytest.mark.once),
    ],
)
def test_the_effects_of_a_killed_bulk_happen_once_and_no_message_is_charged(
    alias: str, process_environment: Environment, where: str, before: int
) -> None:
    killed(process_environment(alias), where)
    assert len(booked(alias)) == before

    def handle(messages: list[object]) -> None:
        for message in messages:
            Queue.objects.using(alias).create(name=f"booked {message.body}", kind="fifo")  # type: ignore[attr-defined]

    with handling(handle, using=alias, transactional=True, bulk=10):
        wait_until_empty(alias)

    assert booked(alias) == [*range(10)]
    assert History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count() == 10
    assert not Attempt.objects.using(alias).exists()
    assert not Message.objects.using(alias).exists()


@pytest.mark.once
def test_only_the_message_that_kills_workers_becomes_a_dead_letter(
    alias: str, process_environment: Environment
) -> None:
    Queue.objects.using(alias).update(max_attempts=2, backoff_seconds=0, backoff_jitter=0)
    environment = process_environment(alias)
    for _ in range(3):  # once with the others, and twice alone
        killed(environment, "poison")

    calls = Calls()
    with handling(calls, using=alias):
        wait_until_empty(alias)

    [dead] = Message.objects.using(alias).all()
    assert (dead.body, dead.state, dead.attempts) == (b"5", Message.Status.DEAD, 2)
    assert sorted({*booked(alias), *calls.done}) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count() == 9
