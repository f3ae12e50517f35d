"""Workers are killed amid coroutines: nothing is lost or stuck, and no accepted message begins again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from django_mq.api import publish_many
from django_mq.delivery.queues import declare
from django_mq.models import History, Message, Queue, WorkerSession
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_django import Settings

    #: The environment of a process on the test's database.
    Environment = Callable[[str], dict[str, str]]

pytestmark = pytest.mark.on("postgresql")

MESSAGES, KILLS = 600, 3
SHORT = {"SESSION_SECONDS": 2, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
WORKER = f"""
import asyncio, random, signal, sys
from functools import partial
import django
from django.conf import settings
settings.DJANGO_MQ = {{**settings.DJANGO_MQ, **{SHORT}}}
django.setup()
from asgiref.sync import sync_to_async
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer.handlers import Way
from django_mq.delivery.consumer.worker import Worker
from django_mq.models import Queue
from tests.delivery.builders import a_handler

notes = open(sys.argv[1], "a", buffering=1)

async def handle(message):
    notes.write(f"{{message.body}}\\n")
    await asyncio.sleep(random.random() / 20)
    if message.body % 10 == 0:
        await Queue.objects.aexists()
    if message.body % 7 == 0 and message.attempt == 1:
        raise ValueError

handler = a_handler(handle, way=Way.EVENT_LOOP, credit=200)
worker = Worker([handler], threads=100, pool=partial(EventLoopPool, threads=4))
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker.run()
"""


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **SHORT}
    store = shared_store(committed_database)
    declare(store, "orders")
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0)
    publish_many([("orders", number) for number in range(MESSAGES)], using=committed_database)
    return committed_database


def accepted(alias: str) -> list[str]:
    rows = History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED)
    return [str(message_id) for message_id in rows.values_list("message_id", flat=True)]


@pytest.mark.once
def test_workers_are_killed_amid_coroutines(alias: str, process_environment: Environment, tmp_path: Path) -> None:
    number_of = {str(row.message_id): int(bytes(row.body)) for row in Message.objects.using(alias)}
    begun_by: list[list[int]] = []
    done_before: list[set[int]] = []
    for turn in range(KILLS + 1):
        notes = tmp_path / str(turn)
        done_before.append({number_of[message_id] for message_id in accepted(alias)})
        command = [sys.executable, "-c", WORKER, str(notes)]
        with subprocess.Popen(command, env=process_environment(alias)) as worker:
            if turn < KILLS:
                enough = (turn + 1) * MESSAGES // (KILLS + 2)
                wait_until(lambda enough=enough: len(accepted(alias)) >= enough)  # type: ignore[misc]
                worker.kill()
            else:
                wait_until(lambda: len(accepted(alias)) == MESSAGES, lambda: f"{len(accepted(alias))} accepted")
                worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_SECONDS) == (-signal.SIGKILL if turn < KILLS else 0)
        begun_by.append([int(line) for line in notes.read_text().split("\n")[:-1]])

    assert Counter(accepted(alias)) == Counter(number_of.keys())
    assert not Message.objects.using(alias).exists()
    assert not WorkerSession.objects.using(alias).exists()
    for begun, done in zip(begun_by, done_before, strict=True):
        assert not done.intersection(begun), "a message that was accepted began again"
        # A message begins again in the same process only after it has failed.
        again = {number for number, times in Counter(begun).items() if times > 1}
        assert all(number % 7 == 0 for number in again)
