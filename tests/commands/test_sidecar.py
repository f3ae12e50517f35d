"""A worker whose work holds the interpreter's lock keeps its session by its sidecar, as long as it is neither
stopped nor dead."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil
import pytest

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.models import History, WorkerSession
from django_mq.stores.registry import shared_store
from tests.services.processes import wait_until_gone
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.commands.conftest import Shop

pytestmark = pytest.mark.on("postgresql")

DEADLINE_SECONDS = 4


@pytest.fixture
def pipe(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A byte that is written here ends the work of one worker."""
    # What Django discourages in a process without the project's apps is an error there.
    monkeypatch.setitem(shop.environment, "PYTHONWARNINGS", "error::RuntimeWarning")
    os.mkfifo(shop.pipe)
    opened = os.open(shop.pipe, os.O_RDWR)
    yield opened
    os.close(opened)


def start(shop: Shop) -> subprocess.Popen[str]:
    return shop.start("--queues=holding", SESSION_SECONDS=DEADLINE_SECONDS, SIDECAR_SECONDS=600)


@pytest.fixture
def workers(committed_database: str, shop: Shop, pipe: int) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """One that works and whose heartbeat cannot run, and one that is free."""
    declare(shared_store(committed_database), "holding")
    publish("holding", 1)
    busy = start(shop)
    shop.wait_for(1)
    free = start(shop)
    wait_until(lambda: WorkerSession.objects.using(committed_database).count() == 2)
    return busy, free


def wait_until_kept(alias: str, deadlines: int) -> None:
    """Return when the older session lives for so many deadlines without its own heartbeat."""

    def kept() -> bool:
        row = WorkerSession.objects.using(alias).order_by("id")[0]
        return row.deadline - row.heartbeat_at > timedelta(seconds=deadlines * DEADLINE_SECONDS)

    wait_until(kept)


@pytest.mark.once
def test_work_that_keeps_the_heartbeat_from_running_runs_once(
    committed_database: str, shop: Shop, pipe: int, workers: tuple[subprocess.Popen[str], subprocess.Popen[str]]
) -> None:
    busy, _ = workers
    wait_until_kept(committed_database, 2)

    os.write(pipe, b".")

    wait_until(History.objects.using(committed_database).exists)
    assert shop.lines == [str(busy.pid)]


@pytest.mark.once
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_worker_that_is_stopped_or_dead_is_not_kept(
    committed_database: str,
    shop: Shop,
    pipe: int,
    workers: tuple[subprocess.Popen[str], subprocess.Popen[str]],
    how: signal.Signals,
) -> None:
    busy, free = workers
    wait_until_kept(committed_database, 1)
    sidecars = psutil.Process(busy.pid).children()
    assert len(sidecars) == 1

    busy.send_signal(how)

    shop.wait_for(2)
    assert shop.lines == [str(busy.pid), str(free.pid)]
    os.write(pipe, b".")
    busy.kill()
    wait_until_gone(sidecars)
