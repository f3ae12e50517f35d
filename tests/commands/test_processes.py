"""mq_worker with several processes, which are replaced, restarted and ended: nothing is lost or run twice."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import urllib.error
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING

import psutil
import pytest
from django.core.management.base import CommandError

from django_mq.api import publish_many
from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.queues import declare
from django_mq.models import History, Message, WorkerSession
from django_mq.stores.registry import shared_store
from tests.services.processes import alive
from tests.support.waiting import PATIENCE_SECONDS, read_until, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tests.commands.conftest import Run, Shop

STATUS = Message.Status
#: What has nothing to do with the kind of database runs on one, which needs no server.
ON_SQLITE = pytest.mark.parametrize(
    "committed_database",
    [pytest.param("default", id="sqlite", marks=pytest.mark.django_db(databases=["default"], transaction=True))],
    indirect=True,
)


def publish(alias: str, queue: str, number: int) -> None:
    declare(shared_store(alias), queue)
    publish_many([(queue, item) for item in range(number)])


def sessions(alias: str) -> set[int]:
    """Return the processes that have a session."""
    return set(WorkerSession.objects.using(alias).values_list("pid", flat=True))


def wait_for_processes(alias: str, number: int) -> set[int]:
    wait_until(lambda: len(sessions(alias)) == number, lambda: f"{number} sessions: {sessions(alias)}")
    return sessions(alias)


def end(worker: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Send a signal; return what the worker prints until its end."""
    worker.send_signal(number)
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)
    return said


@ON_SQLITE
def test_processes_share_the_work_and_end_when_nothing_is_left(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "orders", 60)

    worker = shop.start("--queues=orders", "--until-empty", "--name=picker", "--processes=2", "--max-messages=20")
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert "Starting 2 workers" in said
    assert "picker-1 consumes orders" in said
    assert "picker-2 consumes orders" in said
    # The limits are spread; a process that reaches its limit is replaced.
    assert re.search(r"ends in order: it has begun (19|20) messages", said), said
    assert sorted(map(int, shop.lines)) == list(range(60))
    assert History.objects.using(committed_database).count() == 60
    assert not WorkerSession.objects.using(committed_database).exists()


@pytest.mark.once
@ON_SQLITE
def test_a_killed_process_is_replaced_and_its_messages_are_finished(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 12)
    worker = shop.start("--queues=gated", "--processes=2", "--threads=1")
    shop.wait_for(2)
    victim = min(sessions(committed_database))

    os.kill(victim, signal.SIGKILL)
    assert "has ended with SIGKILL; another one starts" in read_until(worker, f"Process {victim}, number")
    shop.gate.touch()
    wait_until(lambda: not Message.objects.using(committed_database).exists(), "all messages to be handled")
    said = end(worker)

    assert worker.returncode == 0, said
    begun = Counter(map(int, shop.lines))
    assert set(begun) == set(range(12))
    assert sum(begun.values()) == 13  # what the killed process had begun was begun again


@ON_SQLITE
def test_signals_reach_all_processes(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 6)
    worker = shop.start("--queues=gated", "--processes=2", "--threads=1")
    shop.wait_for(2)

    worker.send_signal(signal.SIGINT)
    read_until(worker, "Ending all processes")
    wait_until(lambda: Message.objects.using(committed_database).filter(state=STATUS.READY).count() == 4)
    said = end(worker)

    assert worker.returncode == 3, said
    rows = Message.objects.using(committed_database).values_list("state", "attempts")
    assert list(rows) == [(STATUS.READY, 0)] * 6
    assert not WorkerSession.objects.using(committed_database).exists()


@pytest.mark.once
@ON_SQLITE
def test_a_signal_to_all_processes_is_the_first_one_for_each(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 6)
    worker = shop.start("--queues=gated", "--processes=2", "--threads=1")
    shop.wait_for(2)
    processes = sessions(committed_database)

    worker.send_signal(signal.SIGTERM)
    read_until(worker, "Ending all processes")
    wait_until(lambda: Message.objects.using(committed_database).filter(state=STATUS.READY).count() == 4)
    for pid in processes:
        os.kill(pid, signal.SIGTERM)
    shop.gate.touch()
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert History.objects.using(committed_database).count() == 2


@pytest.mark.once
@ON_SQLITE
def test_a_handler_that_does_not_end_is_waited_for_within_the_bound(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 2)
    for processes in ((), ("--processes=1",)):
        shop.diary.unlink(missing_ok=True)
        worker = shop.start("--queues=gated", "--threads=1", "--stop-seconds=0.2", *processes)
        shop.wait_for(1)

        said = end(worker)

        assert worker.returncode == 3, said
        assert "has not ended within 0.2 s: it gives back" in said
        rows = Message.objects.using(committed_database).values_list("state", "attempts")
        assert list(rows) == [(STATUS.READY, 0)] * 2


@pytest.mark.once
@ON_SQLITE
def test_hup_restarts_one_after_the_other(committed_database: str, shop: Shop) -> None:
    declare(shared_store(committed_database), "orders")
    worker = shop.start("--queues=orders", "--processes=2")
    before = wait_for_processes(committed_database, 2)

    worker.send_signal(signal.SIGHUP)
    seen = read_until(worker, "takes over") + read_until(worker, "takes over")
    after = wait_until(lambda: (now := sessions(committed_database)) - before == now and len(now) == 2 and now)
    said = end(worker)

    assert worker.returncode == 0, seen + said
    assert not before & after


@pytest.mark.once
@ON_SQLITE
def test_the_processes_stay_when_their_successors_cannot_start(
    committed_database: str, shop: Shop, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    release.mkdir()
    (release / "__init__.py").touch()
    shop.environment |= {"SHOP_APPS": '["release"]', "PYTHONDONTWRITEBYTECODE": "1"}
    shop.environment["PYTHONPATH"] += f":{tmp_path}"
    declare(shared_store(committed_database), "orders")
    worker = shop.start("--queues=orders", "--processes=2")
    before = wait_for_processes(committed_database, 2)

    (release / "consumers.py").write_text("import no_such_module")
    worker.send_signal(signal.SIGHUP)
    read_until(worker, "before it was ready: the other processes go on")
    publish(committed_database, "orders", 10)
    wait_until(lambda: len(shop.lines) == 10, lambda: f"the messages: {shop.lines}")
    after = sessions(committed_database)
    said = end(worker)

    assert worker.returncode == 0, said
    assert after == before


@pytest.mark.once
@ON_SQLITE
def test_processes_notice_that_their_supervisor_was_killed(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "gated", 6)
    worker = shop.start("--queues=gated", "--processes=2", "--threads=1")
    shop.wait_for(2)
    processes = [psutil.Process(pid) for pid in sessions(committed_database)]

    worker.kill()
    wait_until(lambda: Message.objects.using(committed_database).filter(state=STATUS.READY).count() == 4)
    shop.gate.touch()
    wait_until(lambda: not any(map(alive, processes)), "the processes to end")

    assert len(shop.lines) == len(set(shop.lines)) == 2
    assert Message.objects.using(committed_database).count() == 4
    assert not WorkerSession.objects.using(committed_database).exists()


@pytest.mark.once
@ON_SQLITE
def test_a_worker_that_cannot_start_ends_its_supervisor(shop: Shop, tmp_path: Path) -> None:
    shop.environment["DATABASE_URL"] = f"sqlite:///{tmp_path}/empty.sqlite3"

    worker = shop.start("--queues=orders", "--processes=2")
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 1, said
    assert "run manage.py migrate" in said
    assert "none was ever ready" in said


@ON_SQLITE
def test_a_worker_begins_no_more_messages_than_it_may(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "orders", 15)
    publish(committed_database, "awaited", 15)

    worker = shop.start("--queues=orders,awaited", "--threads=4", "--max-messages=7")
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == 0, said
    assert "ends in order: it has begun 7 messages" in said
    assert len(shop.lines) == 7
    assert Message.objects.using(committed_database).filter(state=STATUS.READY, attempts=0).count() == 23


@pytest.mark.once
@ON_SQLITE
@pytest.mark.parametrize(
    ("limit", "code", "sentence"),
    [
        ("--max-seconds=0.1", 0, "ends in order: it has run for"),
        ("--max-megabytes=300", 0, "ends in order: it uses"),
        ("--max-megabytes=1", 1, "The limit of 1 MB is too low: it uses"),
    ],
)
def test_a_worker_ends_at_its_limit(
    committed_database: str, shop: Shop, limit: str, code: int, sentence: str
) -> None:
    publish(committed_database, "leaking", 1)

    worker = shop.start("--queues=leaking", limit)
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)

    assert worker.returncode == code, said
    assert sentence in said


def ask(port: int, path: str) -> int:
    """Return the status of a probe; 0 if nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.once
@ON_SQLITE
@pytest.mark.parametrize("processes", [(), ("--processes=2",)], ids=["alone", "supervised"])
def test_probes_show_whether_it_lives_and_is_ready(
    committed_database: str, shop: Shop, tmp_path: Path, processes: tuple[str, ...]
) -> None:
    publish(committed_database, "gated", 2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    live, ready = tmp_path / "probes" / "live", tmp_path / "probes" / "ready"

    worker = shop.start(
        "--queues=gated", "--threads=1", f"--probe-directory={live.parent}", f"--probe-port={port}", *processes
    )
    wait_until(lambda: ask(port, "ready") == 200, "the worker to be ready")
    wait_until(ready.exists)
    assert ask(port, "live") == 200
    assert ask(port, "else") == 404
    touched = live.stat().st_mtime_ns
    wait_until(lambda: live.stat().st_mtime_ns > touched, "the file to be touched")

    shop.wait_for(1)
    if not processes:
        worker.send_signal(signal.SIGTERM)  # it waits for its handler
        wait_until(lambda: ask(port, "ready") == 503, "the worker to be no more ready")
        assert ask(port, "live") == 200
        shop.gate.touch()
        said, _ = worker.communicate(timeout=PATIENCE_SECONDS)
    else:
        shop.gate.touch()
        said = end(worker)

    assert worker.returncode == 0, said
    assert not live.exists()
    assert not ready.exists()


RELOADED = """
from django_mq.api import consumer
from tests.commands.shop.consumers import note

{first}

@consumer("changing")
def handle(message):
    note({word!r})
"""


@pytest.mark.once
@ON_SQLITE
def test_a_worker_starts_again_when_its_code_changes(committed_database: str, shop: Shop, tmp_path: Path) -> None:
    handlers = tmp_path / "reloaded" / "consumers.py"
    handlers.parent.mkdir()
    handlers.with_name("__init__.py").touch()
    shop.environment |= {"SHOP_APPS": '["reloaded"]', "PYTHONDONTWRITEBYTECODE": "1"}
    shop.environment["PYTHONPATH"] += f":{tmp_path}"

    def change_until(line: str, **change: str) -> None:
        """Change the code again and again: the reloader may not look yet when it changes for the first time."""

        def is_noted() -> bool:
            handlers.with_suffix(".new").write_text(RELOADED.format(**{"first": "", "word": line, **change}))
            handlers.with_suffix(".new").replace(handlers)
            return line in shop.lines

        wait_until(is_noted, lambda: f"{line}: {shop.lines}")

    publish(committed_database, "changing", 1)
    handlers.write_text(RELOADED.format(first="", word="first"))
    worker = shop.start("--queues=changing", "--reload")
    shop.wait_for(1)
    change_until("broken", first="note('broken'); consumer('')")
    publish(committed_database, "changing", 1)
    change_until("mended")
    end(worker)

    assert {"first", "broken", "mended"} == set(shop.lines)


@pytest.fixture
def handled() -> Iterator[None]:
    """Two queues have a handler."""
    consumer("handled")(print)
    consumer("left out")(print)
    yield
    forget("handled")
    forget("left out")


@ON_SQLITE
@pytest.mark.usefixtures("handled")
def test_a_worker_leaves_out_queues(committed_database: str, run: Run) -> None:
    for queue in ("handled", "left out"):
        declare(shared_store(committed_database), queue)
    here = f"--database={committed_database}"

    said = run("mq_worker", "--queues=handled,left out", "--exclude=left out", "--until-empty", here)

    assert "consumes handled (credit" in said
    for arguments, sentence in (
        (["--exclude=nowhere"], "No handler for 'nowhere'"),
        (["--queues=handled", "--exclude=handled"], "--exclude handled leaves no queue"),
        (["--processes=2"], "start the command line of this program again"),
        (["--processes=2", "--reload"], "leave out --processes"),
        (["--processes=0"], "--processes: must be 1 or more"),
        (["--max-seconds=0"], "--max-seconds: must be more than 0"),
        (["--probe-port=70000"], "--probe-port: must be from 1 to 65535"),
        (["--queues=handled", "--probe-directory=/dev/null/here", here], "The probes cannot be shown: .*Choose"),
    ):
        with pytest.raises(CommandError, match=sentence):
            run("mq_worker", *arguments)


@pytest.mark.on("postgresql")
@pytest.mark.once
def test_nothing_is_lost_while_processes_are_killed_and_recycled(committed_database: str, shop: Shop) -> None:
    publish(committed_database, "traced", 1500)
    left = Message.objects.using(committed_database)
    worker = shop.start("--queues=traced", "--processes=3", "--threads=2", "--max-messages=150")
    killed: set[int] = set()
    # The next process is killed when the work of a tenth is done.
    for done in range(150, 1500, 150):
        wait_until(lambda done=done: left.count() <= 1500 - done, lambda: f"progress: {left.count()} left")
        candidates = sessions(committed_database) - killed
        if candidates:
            victim = random.choice(sorted(candidates))
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.add(victim)
    wait_until(lambda: not left.exists(), lambda: f"an end: {left.count()} left, {sessions(committed_database)}")
    said = end(worker)

    assert worker.returncode == 0, said
    begun = [tuple(map(int, line.split())) for line in shop.lines]
    assert {body for body, _ in begun} == set(range(1500))
    finished = History.objects.using(committed_database).filter(outcome=History.Outcome.ACCEPTED)
    assert finished.count() == 1500
    times = Counter(body for body, _ in begun)
    again = {body for body, number in times.items() if number > 1}
    by_killed = {body for body, pid in begun if pid in killed}
    assert again <= by_killed
    assert killed
