"""Commands in this process, and workers in processes of their own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from tests.services.processes import tethered
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: Runs a command with its arguments and returns what it printed.
    Run = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Run a command in this process and return what it printed."""

    def run(*arguments: Any) -> str:
        out = io.StringIO()
        name, *rest = map(str, arguments)
        call_command(name, *rest, stdout=out)
        return out.getvalue()

    return run


class Shop:
    """The environment of worker processes, their diary and the gate they wait for."""

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        self.environment = environment
        self.diary = directory / "diary"
        self.gate = directory / "gate"
        self.pipe = directory / "pipe"
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, command: str = "mq_worker", **settings: float) -> subprocess.Popen[str]:
        """Start a command; the settings are those of DJANGO_MQ that differ from the shop's."""
        process = subprocess.Popen(
            tethered([sys.executable, "-m", "django", command, *arguments], death_signal=signal.SIGKILL),
            env={
                **self.environment,
                "DJANGO_SETTINGS_MODULE": "tests.commands.shop.settings",
                "SHOP_DIARY": str(self.diary),
                "SHOP_GATE": str(self.gate),
                "SHOP_PIPE": str(self.pipe),
                "SHOP_MQ": json.dumps({"SESSION_SECONDS": 2, "MAINTENANCE_SECONDS": 0.3, **settings}),
                "PYTHONUNBUFFERED": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
        return process

    @property
    def lines(self) -> list[str]:
        """The diary's lines."""
        return self.diary.read_text().splitlines() if self.diary.exists() else []

    def wait_for(self, number: int) -> None:
        """Wait until so many messages were begun."""
        wait_until(lambda: len(self.lines) >= number, lambda: f"{number} lines: {self.lines}")

    def close(self) -> None:
        self.gate.touch()
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def shop(
    committed_database: str, process_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> Iterator[Shop]:
    """A shop on each kind of database."""
    opened = Shop(process_environment(committed_database), tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def unattended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard input is no terminal."""
    with Path(os.devnull).open() as empty:
        monkeypatch.setattr("sys.stdin", empty)
        yield
