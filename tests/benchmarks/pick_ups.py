"""How soon one idle worker notices one message, of several projects in one run.

    python3.12 -m venv peers && peers/bin/pip install -e '.[test]' procrastinate pgqueuer asyncpg oban
    npm install --prefix boss pg-boss
    peers/bin/python -m tests.benchmarks.pick_ups --node boss/node_modules [--samples N]

Each project has a database of its own on one PostgreSQL, which is started, a process with an idle worker, and a
process that publishes. They take turns, one message each. What is not installed, or does not run on this Python,
is left out. oban-py needs Python 3.12. Prints a table for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import quantiles
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
HEAD = "| | p50, ms | p99, ms |\n|---|---|---|"


@dataclass
class Contender:
    """A worker and a publisher in processes of their own, and what they have measured, in milliseconds.

    The command is called with ``work`` and with ``publish``. Both write "ready". For each line of its input, the
    publisher publishes a message and writes the moment just before; the worker writes when it begins one.
    """

    name: str
    command: list[str]
    environment: Mapping[str, str]
    waits: list[float] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self) -> bool:
        """Start both; return whether they are ready."""
        return all(self._start(role) == "ready" for role in ("work", "publish"))

    def _start(self, role: str) -> str:
        self.processes[role] = subprocess.Popen(
            tethered([*self.command, role], death_signal=signal.SIGKILL),
            env={**os.environ, **self.environment},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._line(role)

    def pick_up(self) -> None:
        """Have one message published, and take note of its pick-up."""
        ask = self.processes["publish"].stdin
        assert ask is not None
        ask.write("\n")
        ask.flush()
        begin = float(self._line("publish"))
        self.waits.append((float(self._line("work")) - begin) * 1000)

    def _line(self, role: str) -> str:
        answers = self.processes[role].stdout
        assert answers is not None
        return answers.readline().strip()

    def stop(self) -> None:
        """Kill both."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def row(self) -> str:
        """Return its row of the table."""
        cuts = quantiles(self.waits[WARM_UP:], n=100)
        return f"| {self.name} | {cuts[49]:,.2f} | {cuts[98]:,.1f} |"


def contenders(given: argparse.Namespace, new_url: Callable[[], str], redis: str) -> list[Contender]:
    """Return all that may run here, each with a database of its own."""
    own = [sys.executable, "-m", "tests.benchmarks.pick_ups", "--serve"]
    settings = {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.celery.settings", "PYTHONWARNINGS": "ignore"}
    found = [
        Contender(name, [*own, kind], {**settings, "DATABASE_URL": new_url(), "REDIS_URL": hints})
        for name, kind, hints in (
            ("django_mq, native", "native", ""),
            ("django_mq, native, with Redis", "native", redis),
            ("django_mq through Celery, `-c 2`", "celery", ""),
        )
    ]
    peers = [sys.executable, str(PROGRAMS / "pick_up.py")]
    found += [Contender(name, [*peers, name, new_url()], {}) for name in ("pgqueuer", "procrastinate", "oban")]
    if given.node:
        command = ["node", str(PROGRAMS / "pick_up_pg_boss.cjs"), new_url()]
        found.append(Contender("pg-boss", command, {"NODE_PATH": str(Path(given.node).resolve())}))
    return found


def main() -> None:
    """Let all take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--node", help="The node_modules with pg-boss.")
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "ROLE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(*given.serve)
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


def serve(kind: str, role: str) -> None:
    """Be a process of django_mq: as ``peer_programs/pick_up.py`` is of a peer."""
    import django
    from django.core.management import call_command

    django.setup()
    from django_mq.benchmarks.measures import QUEUE
    from django_mq.delivery.queues import declare
    from django_mq.stores.registry import shared_store

    if role == "publish":
        publish_each(_sender(kind))
        return
    call_command("migrate", verbosity=0)
    declare(shared_store("default"), QUEUE)
    say("ready")
    if kind == "celery":
        command = [sys.executable, "-m", "celery", "-q", "-A", "tests.benchmarks.celery.project", "worker"]
        os.execv(sys.executable, [*command, "-P", "prefork", "-c", "2", "-l", "ERROR"])
    work()


def work() -> None:
    """Handle messages until the process is killed."""
    from django_mq.benchmarks.measures import QUEUE
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.worker import Worker

    handler = Handler(queue=QUEUE, function=lambda _: say(time.perf_counter()), credit=20, time_limit_seconds=None)
    Worker([handler], threads=2).run()


def _sender(kind: str) -> Callable[[], object]:
    from django_mq.api import publish
    from django_mq.benchmarks.measures import QUEUE
    from tests.benchmarks.celery.project import app

    return app.tasks["bench.arrive"].delay if kind == "celery" else lambda: publish(QUEUE, {})


def publish_each(send: Callable[[], object]) -> None:
    """Publish a message for each line of the input."""
    say("ready")
    while sys.stdin.readline():
        begin = time.perf_counter()
        send()
        say(begin)


def say(what: object) -> None:
    """Write a line for the process that asks."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
