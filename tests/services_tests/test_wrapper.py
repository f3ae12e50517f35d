"""``python -m tests.services -- COMMAND`` is transparent, and clears up however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.conftest import url_or_skip
from tests.services.directory import remove_abandoned
from tests.services.environment import USUAL
from tests.services.processes import alive, wait_until_gone
from tests.services.server import START_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.environment import Services

ROOT = Path(__file__).parents[2]
#: Says that it runs, and ends with a code of its own when it is told to.
OBEDIENT = 'trap "exit 5" TERM INT; echo ready; while :; do sleep 0.05; done'


@pytest.fixture(autouse=True)
def _servers_can_be_had(services: Services) -> None:
    for name in USUAL:
        url_or_skip(services, name)


@contextmanager
def wrapper(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the wrapper without the servers that the environment of the tests may name."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
    command = [sys.executable, "-m", "tests.services", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


def output(process: subprocess.Popen[str]) -> str:
    """Wait for the end of the wrapper and return what the command wrote."""
    return process.communicate(timeout=START_SECONDS)[0]


def test_it_sets_the_addresses_of_both_servers() -> None:
    with wrapper("--", "sh", "-c", "echo $DATABASE_URL $REDIS_URL") as process:
        database, redis = output(process).split()

    assert database.startswith("postgresql://")
    assert redis.startswith("redis://")


def test_it_starts_one_server_only_if_asked() -> None:
    with wrapper("--only", "redis", "--", "sh", "-c", "echo [$DATABASE_URL]") as process:
        assert output(process) == "[]\n"


@pytest.mark.parametrize(
    ("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("exec no-such-program", 127)]
)
def test_it_ends_with_the_code_of_the_command(command: str, code: int) -> None:
    with wrapper("--only", "redis", "--", "sh", "-c", f"{command} 2>/dev/null") as process:
        output(process)

    assert process.returncode == code


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_passes_signals_on_and_waits_for_the_command(signum: signal.Signals) -> None:
    with wrapper("--only", "redis", "--", "sh", "-c", OBEDIENT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signum)
        output(process)

    assert process.returncode == 5


@pytest.mark.once
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_it_leaves_no_process_behind(signum: signal.Signals) -> None:
    with wrapper("--", "sh", "-c", OBEDIENT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        processes = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signum)
        process.wait(START_SECONDS)
        wait_until_gone(processes)
    remove_abandoned()  # a killed wrapper cannot do it itself

    assert len(processes) > 3
    assert not any(alive(one) for one in processes)
