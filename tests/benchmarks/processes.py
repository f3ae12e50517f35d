"""Compare ``mq_worker --processes N`` with N separate ``mq_worker``: the rate of a handler that computes; memory.

    python -m tests.services -- python -m tests.benchmarks.processes [--processes 2] [--rounds 5]

The rounds of both alternate, and the medians count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import django
import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE, AMOUNT, THREADS = "computing", 4000, 2


@contextmanager
def started(commands: list[list[str]], environment: dict[str, str]) -> Iterator[list[psutil.Process]]:
    """Start commands, and end them with TERM."""
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for command in commands]
    try:
        yield [psutil.Process(process.pid) for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def measure(commands: list[list[str]], workers: int, environment: dict[str, str]) -> tuple[float, float]:
    """Return messages a second, and the memory of all processes in MiB."""
    from django_mq.api import pause, publish_many, resume
    from django_mq.models import Message, WorkerSession
    from tests.support.waiting import wait_until

    publish_many([(QUEUE, number) for number in range(AMOUNT)])
    pause(QUEUE)
    with started(commands, environment) as processes:
        wait_until(lambda: WorkerSession.objects.count() == workers, "the workers")
        begin = time.monotonic()
        resume(QUEUE)
        wait_until(lambda: not Message.objects.exists(), "the end")
        rate = AMOUNT / (time.monotonic() - begin)
        family = [one for process in processes for one in (process, *process.children(recursive=True))]
        memory = sum(one.memory_full_info().pss for one in family) / 2**20
    return rate, memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.processes", description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.commands.shop.settings"
    django.setup()
    from django.core.management import call_command

    from django_mq.delivery.queues import declare
    from django_mq.stores.registry import shared_store

    call_command("migrate", verbosity=0)
    declare(shared_store("default"), QUEUE)
    worker = [sys.executable, "-m", "django", "mq_worker", f"--queues={QUEUE}", f"--threads={THREADS}"]
    forms = {
        "supervised": [[*worker, f"--processes={given.processes}"]],
        "separate": [worker] * given.processes,
    }
    found: dict[str, list[tuple[float, float]]] = {form: [] for form in forms}
    with TemporaryDirectory() as directory:
        environment = {**os.environ, "SHOP_DIARY": str(Path(directory) / "diary")}
        for _ in range(given.rounds):
            for form, commands in forms.items():
                found[form].append(measure(commands, given.processes, environment))
    for form, figures in found.items():
        rate, memory = (median(column) for column in zip(*figures, strict=True))
        sys.stdout.write(f"{form}: {rate:,.0f} messages/s, {memory:,.0f} MiB\n")


if __name__ == "__main__":
    main()
