"""``manage.py demo``, a process as a newcomer starts it: few files, the whole path."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen
from uuid import uuid4

import psutil
import psycopg
import pytest

from tests.conftest import url_or_skip
from tests.services.processes import wait_until_gone
from tests.support.waiting import read_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.services.environment import Services

    StartDemo = Callable[..., AbstractContextManager[subprocess.Popen[str]]]
    RunDemo = Callable[..., tuple[int, str]]

FILES = 120
#: Longest wait for a demo to end, on a machine that has much else to do.
PATIENCE_SECONDS = 400.0


@pytest.fixture(params=["sqlite", pytest.param("postgresql and redis", marks=pytest.mark.once)])
def servers(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that tell the demo its servers: none at all, or two."""
    return {} if request.param == "sqlite" else request.getfixturevalue("own_servers")


@pytest.fixture
def own_servers(services: Services) -> dict[str, str]:
    """A new database in the session's PostgreSQL, and the session's Redis.

    It is left to the server's end: to drop it, PostgreSQL first writes all that every database has not
    written yet, which takes minutes on a slow disk.
    """
    url, redis_url = url_or_skip(services, "postgresql"), url_or_skip(services, "redis")
    name = f"demo_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    return {"DATABASE_URL": f"{url.rpartition('/')[0]}/{name}", "REDIS_URL": redis_url}


def totals(written: str, name: str) -> tuple[int, int]:
    """Return a total as the queue and as direct parsing found it."""
    line = next(line for line in written.splitlines() if line.split()[:1] == [name])
    _, stored, direct = line.replace(",", "").split()
    return int(stored), int(direct)


def descendants(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Return all processes that the demo has started."""
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.once
def test_it_indexes_files_and_finds_the_result_right(run_demo: RunDemo, servers: dict[str, str]) -> None:
    code, written = run_demo("--limit", str(FILES), **servers)

    assert code == 0, written
    assert totals(written, "files") == (FILES, FILES)
    assert totals(written, "broken")[0] >= 3
    for name in ("lines", "tokens", "functions", "classes", "imports"):
        stored, direct = totals(written, name)
        assert stored == direct > 0
    assert "Rolled back a batch of 100: 0 rows and 0 messages" in written
    graves = written.partition("Dead letters")[2].splitlines()
    assert [line.split()[1:3] for line in graves if "broken/" in line] == [["3", "x"]] * 3
    assert "9 (package)" in written
    assert "The workflow “library report” has succeeded" in written


@pytest.mark.once
def test_its_tasks_go_through_the_database_to_workers_on_rabbitmq(run_demo: RunDemo, rabbitmq_url: str) -> None:
    code, written = run_demo("--limit", "40", "--through", rabbitmq_url)

    assert code == 0, written
    assert totals(written, "files") == (40, 40)
    through = written.partition("Through RabbitMQ\n")[2].replace(",", "").splitlines()
    counts = {line.split()[0]: int(line.split()[1]) for line in through[:4]}
    broken = totals(written, "broken")[0]
    assert counts == {"forwarded": 40, "run": 40, "results": 40 - broken, "rejected": broken}
    assert "by rabbit@" in through[1]
    assert "guest" not in written


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://user:s3cret@127.0.0.1:1//", "RabbitMQ at amqp://127.0.0.1:1// cannot be reached"),
        ("redis://:s3cret@127.0.0.1:1/0", "redis://127.0.0.1:1/0 is not the URL of a RabbitMQ"),
    ],
)
def test_a_rabbitmq_that_cannot_be_reached_is_said_at_once(run_demo: RunDemo, url: str, words: str) -> None:
    code, written = run_demo("--limit", "10", "--through", url)

    assert code == 1
    assert words in written
    assert "Start a RabbitMQ, or correct --through" in written
    assert "s3cret" not in written


@pytest.mark.once
def test_a_worker_killed_half_way_changes_nothing(run_demo: RunDemo, servers: dict[str, str]) -> None:
    code, written = run_demo("--limit", str(FILES), "--kill-once", **servers)

    assert code == 0, written
    assert "The worker died (signal 9). Starting another." in written
    assert totals(written, "files") == (FILES, FILES)


@pytest.mark.once
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_and_can_be_continued(
    start_demo: StartDemo, run_demo: RunDemo, signum: signal.Signals
) -> None:
    with start_demo("--limit", "30") as process:
        read_until(process, "Published")
        started = descendants(process)
        process.send_signal(signum)
        written, _ = process.communicate(timeout=PATIENCE_SECONDS)
    wait_until_gone(started)

    assert process.returncode == 130, written
    assert "Traceback" not in written

    code, written = run_demo("--limit", "30", "--keep")

    assert code == 0, written
    assert totals(written, "files") == (30, 30)


@pytest.mark.once
def test_it_serves_the_site_until_it_is_interrupted(start_demo: StartDemo, free_port: int) -> None:
    with start_demo("--limit", "10", "--serve", "--port", str(free_port)) as process:
        written = read_until(process, "stay up")
        with urlopen(f"http://127.0.0.1:{free_port}/") as page:
            assert b"<td>example</td>" in page.read()
        with urlopen(f"http://127.0.0.1:{free_port}/admin/") as page:
            assert b"Log in" in page.read()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    assert f"http://127.0.0.1:{free_port}/admin/  user demo, password demo" in written


def test_a_port_in_use_is_said_at_once(run_demo: RunDemo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, written = run_demo("--serve", "--port", str(taken.getsockname()[1]))

    assert code == 1
    assert "name another with --port" in written


@pytest.mark.once
def test_a_second_demo_in_the_same_place_is_refused(
    start_demo: StartDemo, run_demo: RunDemo, free_port: int
) -> None:
    # With a site the first one does not end by itself, before the second has started.
    with start_demo("--limit", "10", "--serve", "--port", str(free_port)) as process:
        read_until(process, "stay up")
        code, written = run_demo("--limit", "10")

    assert code == 1
    assert f"process {process.pid}" in written
