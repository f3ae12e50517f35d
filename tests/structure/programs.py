"""What is measured in a process of its own: ``python -m tests.structure.programs NAME FILE`` writes JSON."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import django

from tests.services.mariadb import MariaDB
from tests.services.postgresql import PostgreSQL
from tests.services.server import UnavailableError
from tests.structure import claims, product
from tests.structure.relay import Relay
from tests.structure.tracing import functions_entered, lines_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
KINDS: Final = ("sqlite", "postgresql", "mariadb")
#: The name of PostgreSQL's socket in its directory.
SOCKET = ".s.PGSQL.5432"
#: The key of what is not installed, in the place of an answer.
MISSING = "missing"
#: Longer than any trace takes, in seconds.
NEVER_SECONDS = 86_400.0


def measure(name: str) -> Any:
    """Run a program of this module in another process and return what it measured. Raises UnavailableError."""
    with tempfile.TemporaryDirectory(prefix="django_mq-structure-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "tests.structure.programs", name, str(answer)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")
        found = json.loads(answer.read_text())
        if MISSING in found:
            raise UnavailableError(found[MISSING])
        return found


def entered(program: Callable[[], None]) -> list[tuple[str, str]]:
    """Return the files and functions that the program enters, on SQLite, in the order of the first calls.

    They are the same each time: no heartbeat makes a round, which would come by the clock. A Celery worker skips
    Django's system checks, which are no part of a message's way.
    """
    with database("sqlite"):
        from django_mq.delivery.consumer import heartbeat

        heartbeat.ROUND_SECONDS = NEVER_SECONDS
        os.environ["CELERY_SKIP_CHECKS"] = "1"
        with functions_entered() as found:
            program()
    return found


#: The product at work on any database.
AT_WORK: Final = (
    product.native_message,
    product.celery_message,
    product.chords,
    product.interfaces,
    product.shared_handlers,
    product.durable_handlers,
    product.handlers_with_rules,
    product.handlers_with_retries,
    product.limited_handlers,
    product.fair_handlers,
    product.batches,
    product.receivers,
    product.periodic_messages,
    product.workflows,
    product.bridges,
    product.failures_and_alerts,
    product.figures_of_the_past,
    product.many_keys,
    product.operators,
)


def at_work() -> list[str]:
    """Return what the product does at work, in words."""
    return [str(program.__doc__).partition("\n")[0] for program in AT_WORK]


def reached(kind: str) -> dict[str, list[int]]:
    """Return the lines of the engine that run when the product works on a database, or in memory."""
    from django_mq.stores.registry import MEMORY

    # What runs while the engine is imported counts: the table of options is made then.
    with lines_run("engine") as run, database("sqlite" if kind == "memory" else kind):
        if kind == "memory":
            product.celery_message("django-mq:///:memory:", countdown=0.3)
            product.steering(MEMORY)
            product.transactions(MEMORY)
            product.mistakes(MEMORY)
            product.orders_of_rings(MEMORY)
            product.scenarios(MEMORY)
            product.histories(MEMORY, count=100)
            from tests.structure import consumers

            consumers.play(MEMORY)
            consumers.meet(MEMORY)
        else:
            for program in AT_WORK:
                program()
            if kind == "sqlite":
                product.simulation()
                product.steering("default")
                product.scenarios("default")
                product.histories("default")
    return {path: sorted(lines) for path, lines in run.items()}


def asked(kind: str) -> dict[str, int]:
    """Return how often each kind of claim asks the database."""
    from django_mq.stores.registry import private_store

    with database(kind) as relay:
        store = private_store("default")
        try:
            return claims.counts(store, relay)
        finally:
            store.close()


@contextmanager
def database(kind: str) -> Iterator[Relay | None]:
    """Set Django up on an empty database of this kind; yield the relay before its server, if it has one."""
    with tempfile.TemporaryDirectory(prefix="django_mq-structure-") as folder:
        if kind == "sqlite":
            _set_up(kind, f"sqlite:///{folder}/queues.sqlite3")
            yield None
            return
        with PostgreSQL() if kind == "postgresql" else MariaDB() as server:
            if isinstance(server, PostgreSQL):
                entrance, target, host = Path(folder, SOCKET), server.data / SOCKET, server.data
            else:
                entrance, target, host = Path(folder, "socket"), server.socket, server.socket
            relay = Relay(entrance, target)
            instead = folder if isinstance(server, PostgreSQL) else str(entrance)
            _set_up(kind, server.url.replace(quote(str(host), safe=""), quote(instead, safe="")))
            yield relay


def _set_up(kind: str, url: str) -> None:
    os.environ |= {"DJANGO_SETTINGS_MODULE": f"tests.settings.{kind}", "DATABASE_URL": url, "REDIS_URL": ""}
    django.setup()
    logging.disable(logging.CRITICAL)
    from django.core.management import call_command

    from django_mq import conf
    from django_mq.delivery.queues import declare
    from django_mq.stores.registry import shared_store

    call_command("migrate", verbosity=0)
    for queue in ("orders", "celery"):
        declare(shared_store("default"), queue)
    conf.extensions(), conf.middleware()  # read once in a process, as the settings are


PROGRAMS: Final[dict[str, Callable[[], Any]]] = {
    "native": partial(entered, product.native_message),
    "celery": partial(entered, product.celery_message),
    **{f"reached on {kind}": partial(reached, kind) for kind in ("memory", "sqlite", "postgresql")},
    **{f"asked on {kind}": partial(asked, kind) for kind in KINDS},
}


def answer(name: str) -> Any:
    """Return what a program measures, or what it misses."""
    try:
        return PROGRAMS[name]()
    except UnavailableError as missing:
        return {MISSING: str(missing)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(answer(sys.argv[1])))
