"""Celery workers as subprocesses, on any broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A worker that is not ready, or work that is not done, after so long, in seconds, ends the benchmark.
PATIENCE_SECONDS = 180.0
#: A stopped worker has so long, in seconds, to end by itself.
STOP_SECONDS = 10.0


@contextmanager
def celery_worker(
    broker: str, queue: str, *, processes: int = 2, counter: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a prefork worker until the block ends."""
    command = [sys.executable, "-m", "celery", "-A", "django_mq.benchmarks.celery_app:app", "worker"]
    options = ["--concurrency", str(processes), "--loglevel", "WARNING", "--queues", queue]
    environment = os.environ | {"MQ_BENCH_BROKER": broker, "MQ_BENCH_QUEUE": queue, "PYTHONWARNINGS": "ignore"}
    if counter is not None:
        environment["MQ_BENCH_COUNTER"] = str(counter)
    worker = subprocess.Popen(  # noqa: S603 - our own interpreter
        command + options,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield worker
    finally:
        worker.terminate()
        try:
            worker.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Celery's prefork pool may wait for ever when it is stopped in the middle of a
            # backlog, on Redis as well as here.
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def wait_until(done: Callable[[], bool], worker: subprocess.Popen[bytes]) -> None:
    """Look every few milliseconds. Raises RuntimeError when the worker dies or patience ends."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if worker.poll() is not None:
            raise RuntimeError(f"The measured worker ended with exit code {worker.returncode}.")
        if time.monotonic() > end:
            raise RuntimeError(f"The measured worker was not done after {PATIENCE_SECONDS:.0f} s.")
        time.sleep(0.005)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
