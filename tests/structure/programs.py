"""What is measured in a process of its own: ``python -m tests.structure.programs NAME FILE`` writes JSON."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from tests.structure.claims import KINDS, counts
from tests.structure.tracing import files_entered, lines_run

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((ROOT / "tests" / "scenarios" / "data").glob("*.json"))


def measure(name: str) -> Any:
    """Run a program of this module in another process and return what it measured."""
    with tempfile.TemporaryDirectory(prefix="django_mq-structure-") as folder:
        answer = Path(folder) / "answer.json"
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.sqlite",
            "DATABASE_URL": f"sqlite:///{folder}/queues.sqlite3",
            "REDIS_URL": "",
        }
        command = [sys.executable, "-m", "tests.structure.programs", name, str(answer)]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")
        return json.loads(answer.read_text())


def native() -> list[str]:
    """Publish one native message, start a worker that handles it, and stop the worker."""
    _prepare()
    with files_entered() as entered:
        _native()
    return sorted(entered)


def _native() -> None:
    from django_mq.api import consumer, publish
    from django_mq.delivery.handlers import handler_of
    from django_mq.delivery.worker import Worker

    handled = []

    @consumer("orders")
    def handle(message: object) -> None:
        handled.append(message)

    publish("orders", {"order": 1})
    Worker([handler_of("orders")], threads=2).run(until_empty=True)
    assert len(handled) == 1


def celery() -> list[str]:
    """Publish one Celery task, start a worker that runs it, and stop the worker."""
    _prepare()
    with files_entered() as entered:
        _celery()
    return sorted(entered)


def _celery() -> None:
    from celery import Celery, signals

    from django_mq.integrations.celery.alias import register

    register()
    app = Celery("structure", broker="django-mq://")
    app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
    run: list[int] = []

    @app.task(name="note")
    def note(number: int) -> None:
        run.append(number)

    worker = app.Worker(pool="solo", without_mingle=True, without_gossip=True, loglevel="ERROR")
    signals.task_postrun.connect(lambda **_: worker.stop(), weak=False)
    note.delay(1)
    with suppress(SystemExit):
        worker.start()
    assert run == [1]


def reach() -> dict[str, dict[str, list[int]]]:
    """Run the product over the engine: the scenarios through two stores, and both kinds of workers."""
    from django_mq.stores.registry import MEMORY

    _prepare()
    programs: dict[str, Callable[[], None]] = {
        "native worker": _native,
        "celery worker": _celery,
        "sqlite": lambda: _scenarios("default"),  # empties the tables
        "memory": lambda: _scenarios(MEMORY),
    }
    found = {}
    for name, program in programs.items():
        with lines_run("engine") as run:
            program()
        found[name] = {path: sorted(lines) for path, lines in run.items()}
    return found


def _scenarios(alias: str) -> None:
    from django_mq.stores.registry import private_store
    from tests.scenarios.running import run_file
    from tests.scenarios.stored.ground import stored_ground

    store = private_store(alias)
    for path in SCENARIOS:
        for _ in run_file(path, stored_ground(store)):
            pass
    store.close()


def _prepare() -> None:
    django.setup()
    logging.disable(logging.CRITICAL)
    from django.core.management import call_command

    from django_mq.delivery.declaring import declare
    from django_mq.stores.registry import shared_store

    call_command("migrate", verbosity=0)
    declare(shared_store("default"), "orders")


PROGRAMS: dict[str, Callable[[], Any]] = {
    "native": native,
    "celery": celery,
    "reach": reach,
    **{kind: partial(counts, kind) for kind in KINDS},
}

if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(PROGRAMS[sys.argv[1]]()))
