"""Pick-ups by idle and by busy workers, with hints through PostgreSQL beside hints through Redis.

    python -m tests.benchmarks.pick_up_rates                            # twelve minutes
    python -m tests.benchmarks.pick_up_rates --repeats 5 celery:1:50:10

A case is an interface (native or celery), a number of workers with four threads each, messages a second, at random
moments, and seconds. Both ways take turns on one server, each time with new workers. The time is from just before
the publish to the first line of the handler. Prints a table for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.celery.sides import wait_until
from tests.benchmarks.peers import new_database
from tests.services.environment import Services
from tests.services.processes import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.delivery.codecs import ReceivedMessage

ROOT = Path(__file__).parents[2]
#: Workers that have just started are not idle yet, in seconds; and messages that do not count.
SETTLE_SECONDS, WARM_UP = 2.0, 3
THREADS = 4
HEAD = (
    "| | workers | messages/s | Redis p50, ms | p99 | PostgreSQL p50, ms | p99 | ratio p50 | p99 |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


class Case(NamedTuple):
    """What is measured."""

    interface: str
    workers: int
    rate: float
    seconds: float

    @classmethod
    def read(cls, text: str) -> Case:
        """Return the case of a text such as ``native:16:50:10``. Raises ValueError."""
        interface, workers, rate, seconds = text.split(":")
        if interface not in {"native", "celery"}:
            raise ValueError(text)
        return cls(interface, int(workers), float(rate), float(seconds))


USUAL = [
    Case(interface, workers, rate, seconds)
    for interface in ("native", "celery")
    for workers in (1, 16)
    for rate, seconds in ((1, 60), (50, 10), (200, 8))
]


def main() -> None:
    """Measure the cases, and print their rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", type=Case.read, metavar="INTERFACE:WORKERS:RATE:SECONDS")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--serve", choices=["publish", "work"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, *given.cases)
        return
    with Services() as services:
        _say(HEAD)
        for case in given.cases or USUAL:
            waits: dict[str, list[float]] = {"redis": [], "postgresql": []}
            for turn in range(given.repeats):
                for way in sorted(waits, reverse=turn % 2 == 0):
                    hints = services.url("redis") if way == "redis" else ""
                    with new_database(services.url("postgresql"), "mq_rates") as url:
                        waits[way] += measured(case, url, hints)
            cuts = [quantiles(way, n=100) for way in waits.values()]
            redis, late, postgresql, later = (each[at] for each in cuts for at in (49, 98))
            figures = f"{redis:.1f} | {late:.1f} | {postgresql:.1f} | {later:.1f}"
            ratios = f"{postgresql / redis:.2f} | {later / late:.2f}"
            _say(f"| {case.interface} | {case.workers} | {case.rate:g} | {figures} | {ratios} |")


def measured(case: Case, url: str, redis: str) -> list[float]:
    """Return the milliseconds of each pick-up, with workers that are started for it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        waits = Path(folder) / "waits"
        waits.touch()
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.benchmarks.celery.settings",
            "DATABASE_URL": url,
            "REDIS_URL": redis,
            "PYTHONWARNINGS": "ignore",
            "WAITS": str(waits),
        }
        ours = [sys.executable, "-m", "tests.benchmarks.pick_up_rates", ":".join(map(str, case)), "--serve"]
        celery = [sys.executable, "-m", "celery", "-A", "tests.benchmarks.celery.project", "worker"]
        celery += ["-P", "threads", "-c", str(THREADS), "-l", "ERROR"]
        migrate = [sys.executable, "-m", "django", "migrate", "-v0"]
        subprocess.run(migrate, cwd=ROOT, env=environment, check=True)

        def start(*command: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                tethered(list(command), death_signal=signal.SIGKILL),
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        publisher = start(*ours, "publish")
        for number in range(case.workers):
            start(*([*ours, "work"] if case.interface == "native" else [*celery, "-n", f"worker{number}@bench"]))
        _answer(publisher, "workers")
        wait_until(lambda: waits.read_text().count("\n") >= WARM_UP)
        _answer(publisher, "messages")
        wait_until(lambda: publisher.poll() is not None)
        return [float(line) for line in waits.read_text().splitlines()[WARM_UP:]]


def _answer(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def serve(role: str, case: Case) -> None:
    """Be the publisher, or a native worker."""
    import django

    django.setup()
    if role == "work":
        work()
    else:
        publish(case)


def work() -> None:
    """Handle messages until the process is ended."""
    from django_mq.benchmarks.measures import QUEUE
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.worker import Worker
    from tests.benchmarks.celery.project import wait

    def handle(message: ReceivedMessage) -> None:
        wait(**message.body)

    handler = Handler(queue=QUEUE, function=handle, credit=5 * THREADS, time_limit_seconds=None)
    worker = Worker([handler], threads=THREADS)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def publish(case: Case) -> None:
    """Declare the queue, wait for the workers, and publish as the case says."""
    from django_mq.benchmarks.measures import QUEUE
    from django_mq.delivery.queues import declare
    from django_mq.models import WorkerSession
    from django_mq.stores.registry import shared_store

    declare(shared_store("default"), QUEUE)
    sys.stdin.readline()
    wait_until(lambda: WorkerSession.objects.count() >= case.workers)
    time.sleep(SETTLE_SECONDS)
    send = _sender(case.interface)
    for _ in range(WARM_UP):
        send()
        time.sleep(0.3)
    sys.stdin.readline()
    for moment in moments(case):
        time.sleep(max(0.0, moment - time.monotonic()))
        send()
    time.sleep(1)


def moments(case: Case) -> Iterator[float]:
    """Yield when to publish: at random, the same for each run."""
    chance = random.Random(1)
    moment = time.monotonic()
    end = moment + case.seconds
    while moment < end:
        yield moment
        moment += chance.expovariate(case.rate)


def _sender(interface: str) -> Callable[[], object]:
    from django_mq.api import publish
    from django_mq.benchmarks.measures import QUEUE
    from tests.benchmarks.celery.project import app

    file = os.environ["WAITS"]
    if interface == "celery":
        return lambda: app.tasks["bench.wait"].delay(file, time.time())
    return lambda: publish(QUEUE, {"file": file, "sent_at": time.time()})


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
