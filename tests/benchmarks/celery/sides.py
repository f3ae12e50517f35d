"""The two sides: what differs between them is the broker, and how to see that it holds nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from redis import Redis

from tests.benchmarks.celery import project
from tests.services.processes import tethered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

#: Longest wait for anything, in seconds.
PATIENCE_SECONDS = 600.0
#: Time between two looks at what takes seconds, and at what takes milliseconds.
LOOK_SECONDS = 0.002


class Side:
    """One broker with its app and its workers."""

    def __init__(self, name: str, broker: str, folder: Path) -> None:
        self.name = name
        self.broker = broker
        self.app: Any = project.make(broker)
        self._stamps = folder / f"{name}.stamps"

    def holds(self) -> int:
        """Return how many messages the broker holds, delivered ones included."""
        raise NotImplementedError

    def send_stamp(self, **options: Any) -> None:
        """Publish a task that says when it ran."""
        self.app.tasks["bench.stamp"].apply_async((str(self._stamps),), **options)

    def forget_stamps(self) -> None:
        """Begin anew."""
        self._stamps.write_text("", encoding="ascii")

    def wait_for_stamps(self, amount: int) -> list[float]:
        """Return when the stamps ran, once there are so many."""
        wait_until(lambda: self._stamps.read_text(encoding="ascii").count("\n") >= amount)
        return [float(line) for line in self._stamps.read_text(encoding="ascii").splitlines()]

    def wait_until_empty(self) -> float:
        """Return the moment at which the broker held nothing more."""
        wait_until(lambda: self.holds() == 0)
        return time.time()

    def worker(self, *options: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run a worker, and end it as an operator would."""
        return celery_worker(project.__name__, {"BENCH_BROKER": self.broker}, *options)


class OnDjangoMQ(Side):
    """django_mq on PostgreSQL, hints through Redis."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__("django_mq", "django-mq://", folder)
        self._connection = psycopg.connect(url, autocommit=True)

    def holds(self) -> int:
        rows = self._connection.execute("SELECT count(*) FROM django_mq_message").fetchall()
        return int(rows[0][0])


class OnRedis(Side):
    """Kombu's Redis transport, in a Redis database that holds nothing else."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__("redis", url, folder)
        self._client = Redis.from_url(url)

    def holds(self) -> int:
        waiting, delivered = self._client.llen("bench"), self._client.hlen("unacked")
        return int(waiting) + int(delivered)  # type: ignore[arg-type]  # of the synchronous client


@contextmanager
def celery_worker(app: str, environment: dict[str, str], *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker of the app in this module, and end it as an operator would."""
    command = [sys.executable, "-m", "celery", "-A", app, "worker", "-l", "ERROR", *options]
    with running(command, environment | {"PYTHONWARNINGS": "ignore"}) as process:
        yield process


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, and end it as an operator would."""
    process = subprocess.Popen(
        tethered(command, death_signal=signal.SIGKILL),
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def wait_until(condition: Any) -> None:
    """Return when the condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("The benchmark waited too long.")
        time.sleep(LOOK_SECONDS)
