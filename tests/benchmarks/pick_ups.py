"""How soon one idle worker notices one message, of several projects in one run.

    python -m venv peers && peers/bin/pip install procrastinate pgqueuer asyncpg oban
    npm install --prefix boss pg-boss
    python -m tests.benchmarks.pick_ups --python peers/bin/python --node boss/node_modules [--samples N]

All projects have a database of their own on one PostgreSQL, which is started, and one idle worker each. They take
turns, one message each. What is not installed, or does not run on this Python, is left out. oban-py needs Python
3.12. Prints a table for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tests.benchmarks.peers import new_database
from tests.services.environment import Services
from tests.services.processes import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "peer_programs"
#: What each worker has to become idle again, in seconds, and samples that do not count.
PAUSE_SECONDS, WARM_UP = 0.03, 10
PATIENCE_SECONDS = 60.0
HEAD = "| | p50, ms | p99, ms |\n|---|---|---|"


@dataclass
class Contender:
    """A process with an idle worker, and what it has measured, in milliseconds."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    waits: list[float] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    def start(self) -> bool:
        """Start it; return whether its worker is ready."""
        self.process = subprocess.Popen(
            tethered(self.command, death_signal=signal.SIGKILL),
            env={**os.environ, **self.environment},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._line() == "ready"

    def pick_up(self) -> None:
        """Have one message published, and take note of its pick-up."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.waits.append(float(self._line()))

    def _line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def stop(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def row(self) -> str:
        """Return its row of the table."""
        ordered = sorted(self.waits[WARM_UP:])
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return f"| {self.name} | {p50:,.1f} | {p99:,.1f} |"


def contenders(given: argparse.Namespace, new_url: Callable[[], str], redis: str) -> list[Contender]:
    """Return all that can run here, each with a database of its own."""
    own = [sys.executable, "-m", "tests.benchmarks.pick_ups", "--serve"]
    settings = {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.celery.settings", "PYTHONPATH": str(ROOT)}
    found = [
        Contender(name, [*own, kind], {**settings, "DATABASE_URL": new_url(), "REDIS_URL": hints})
        for name, kind, hints in (
            ("django_mq, native", "native", ""),
            ("django_mq with Redis, native", "native", redis),
            ("django_mq through Celery, `-c 2`", "celery", ""),
        )
    ]
    if given.python:
        peers = [given.python, str(PROGRAMS / "pick_up.py")]
        found += [Contender(name, [*peers, name, new_url()], {}) for name in ("pgqueuer", "procrastinate", "oban")]
    if given.node:
        command = ["node", str(PROGRAMS / "pick_up_pg_boss.cjs"), new_url()]
        found.append(Contender("pg-boss", command, {"NODE_PATH": str(Path(given.node).resolve())}))
    return found


def main() -> None:
    """Let all take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--python", help="An interpreter that has procrastinate, pgqueuer and oban.")
    parser.add_argument("--node", help="The node_modules with pg-boss.")
    parser.add_argument("--serve", choices=["native", "celery"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    services, numbers = Services(), count()
    with ExitStack() as stack:
        stack.callback(services.close)
        server, redis = services.url("postgresql"), services.url("redis")

        def new_url() -> str:
            return stack.enter_context(new_database(server, f"mq_pick_ups_{next(numbers)}"))

        running = []
        for contender in contenders(given, new_url, redis):
            stack.callback(contender.stop)
            if contender.start():
                running.append(contender)
            else:
                sys.stderr.write(f"{contender.name} does not run here\n")
        for _ in range(given.samples + WARM_UP):
            for contender in running:
                contender.pick_up()
                time.sleep(PAUSE_SECONDS)
        sys.stdout.write("\n".join([HEAD, *(contender.row() for contender in running)]) + "\n")


def serve(kind: str) -> None:
    """Be the process of django_mq: as ``peer_programs/pick_up.py`` is for a peer."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    with ExitStack() as stack:
        picked_up = native(stack) if kind == "native" else through_celery(stack)
        for _ in range(WARM_UP):
            picked_up()  # the worker is up
        answer("ready")
        while sys.stdin.readline():
            answer(f"{picked_up()}")


def answer(line: str) -> None:
    """Write a line for the process that asks."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def native(stack: ExitStack) -> Callable[[], float]:
    """Start a native worker in a thread; return a function that times a pick-up."""
    from django_mq.api import publish
    from django_mq.benchmarks.measures import QUEUE, bench_queue
    from tests.delivery.builders import a_handler, running

    arrivals: SimpleQueue[float] = SimpleQueue()
    stack.enter_context(bench_queue("default"))
    handler = a_handler(lambda _: arrivals.put(time.perf_counter()), queue=QUEUE)
    stack.enter_context(running(handler, using="default"))

    def picked_up() -> float:
        begin = time.perf_counter()
        publish(QUEUE, {})
        return (arrivals.get(timeout=PATIENCE_SECONDS) - begin) * 1000

    return picked_up


def through_celery(stack: ExitStack) -> Callable[[], float]:
    """Start a Celery worker; return a function that times a pick-up."""
    from tests.benchmarks.celery.picking_up import WORKER, picked_up
    from tests.benchmarks.celery.sides import OnDjangoMQ

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    side = OnDjangoMQ(os.environ["DATABASE_URL"], folder)
    stack.enter_context(side.worker(*WORKER))
    return lambda: picked_up(side)


if __name__ == "__main__":
    main()
