"""A database, its queue, and the processes that work on it, seen from the process that tests them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import uuid4

import psutil
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings

from django_mq.api import OutgoingMessage, publish_many
from django_mq.engine.states import State
from django_mq.models import Message, Queue, WorkerSession
from tests.proof.account import Account
from tests.proof.notes import SENT, make_table, note
from tests.proof.roles import QUEUE
from tests.services.processes import alive, tethered
from tests.settings.databases import from_url
from tests.support.resting import is_at_rest
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

ROOT = Path(__file__).parents[2]
#: Short deadlines: the messages of a killed worker must come back while the test waits.
SHORT = {"SESSION_SECONDS": 2, "MAINTENANCE_SECONDS": 0.2, "SAFETY_POLL_SECONDS": 0.5, "POLL_SECONDS": 0.05}


def new_mariadb(server: str) -> str:
    """Make an empty database on a MariaDB server, and return its URL."""
    import MySQLdb

    parts = urlsplit(server)
    name = f"proof_{uuid4().hex[:8]}"
    with closing(MySQLdb.connect(unix_socket=unquote(parts.netloc.rpartition("@")[2]), user="root")) as connection:
        connection.query(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    return urlunsplit(parts._replace(path=f"/{name}"))


class Nursery:
    """The program that forks the processes, as its only client."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings.sqlite", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.proof.nursery", str(theirs.fileno())]
        self._program = subprocess.Popen(
            tethered(command, death_signal=signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=environment,
            # A Celery worker takes the hang-up of our terminal, or of our job, for an order to start again.
            start_new_session=True,
        )
        theirs.close()
        self._orders = self._line.makefile("rw", encoding="utf-8")

    def fork(self, order: dict[str, Any]) -> int:
        """Start a process and return its id."""
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        return int(self._orders.readline())

    def close(self) -> None:
        """Let the program end, and its children with it."""
        self._orders.close()
        self._line.close()
        self._program.wait(PATIENCE_SECONDS)


class Child:
    """One process of a place."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.process = psutil.Process(pid) if psutil.pid_exists(pid) else None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process is not None and alive(self.process)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still exists."""
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self._wait()

    def end(self) -> None:
        """Ask it to end and wait until it has."""
        self.signal(signal.SIGTERM)
        self._wait()

    def _wait(self) -> None:
        if self.process is not None:
            self.process.wait(PATIENCE_SECONDS)


class Place:
    """One queue in a database of its own."""

    def __init__(self, url: str, directory: Path, nursery: Nursery, **mq: Any) -> None:
        self.url = url
        self.directory = directory
        self.alias = f"proof_{uuid4().hex[:8]}"
        self.mq = {**SHORT, "REDIS_PREFIX": self.alias, **mq}
        self.children: list[Child] = []
        self._nursery = nursery
        self._stack = ExitStack()

    # Processes.

    def start(self, role: str, *, url: str | None = None, pooled: bool = False, **options: Any) -> Child:
        """Start a process in a role, which may reach the database by another URL, and through a pooler."""
        order = {"role": role, "options": options, "url": url or self.url, "mq": self.mq, "log": str(self.log)}
        order["pooled"] = pooled
        self.children.append(Child(self._nursery.fork(order)))
        return self.children[-1]

    @property
    def said(self) -> str:
        """What stands in the log, which the first child makes."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def log(self) -> Path:
        """What all of them have said."""
        return self.directory / "log"

    def files(self) -> list[Path]:
        """The files of a database that is one."""
        path = Path(self.url.removeprefix("sqlite:///"))
        return [file for file in path.parent.iterdir() if file.name.startswith(path.name)]

    # Messages.

    def declare(self, **options: Any) -> None:
        """Change the queue's options."""
        Queue.objects.using(self.alias).filter(name=QUEUE).update(**options)

    def send(self, count: int, *, delay: float | None = None) -> None:
        """Publish so many, noting each, in one transaction."""
        letters = [OutgoingMessage(queue=QUEUE, body=number, delay=delay) for number in range(count)]
        with transaction.atomic(using=self.alias):
            note(SENT, publish_many(letters), self.alias)

    def count(self, *states: State) -> int:
        """How many messages are there, in any of these states if some are named."""
        rows = Message.objects.using(self.alias)
        return (rows.filter(state__in=[state.value for state in states]) if states else rows).count()

    def freeze(self, child: Child) -> None:
        """Suspend a process between two transactions: within one, its locks would suspend all other processes."""

        def suspended() -> bool:
            child.signal(signal.SIGSTOP)
            wait_until(lambda: child.process is None or child.process.status() == psutil.STATUS_STOPPED)
            if is_at_rest(self.url):
                return True
            child.signal(signal.SIGCONT)
            return False

        wait_until(suspended, self.story)

    def sessions(self) -> list[WorkerSession]:
        """The worker sessions that are not closed or reaped."""
        return list(WorkerSession.objects.using(self.alias).order_by("id"))

    def finish(self, **options: Any) -> Account:
        """Let a worker that is not killed do what is left; return the account."""
        last = self.start("consume", **options)
        wait_until(lambda: not self.count(State.READY, State.CLAIMED, State.SCHEDULED), self.story)
        last.end()
        return Account.of(self.alias)

    def story(self) -> str:
        """What a failed wait should tell."""
        states = {state.name: self.count(state) for state in State if self.count(state)}
        return f"an end: {states}, sessions {[row.pk for row in self.sessions()]}\n{self.said[-5000:]}"

    # Its life.

    def __enter__(self) -> Self:
        complete = connections.configure_settings({"default": {}, self.alias: from_url(self.url)})
        connections.settings[self.alias] = complete[self.alias]
        self._stack.enter_context(override_settings(DJANGO_MQ={**self.mq, "DATABASE": self.alias}))
        return self

    def prepare(self) -> None:
        """Make the tables and the queue, unless the database was copied from one that has them."""
        call_command("migrate", database=self.alias, verbosity=0)
        make_table(self.alias)
        from django_mq.delivery.queues import declare
        from django_mq.stores.registry import shared_store

        declare(shared_store(self.alias), QUEUE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in self.children:
            child.signal(signal.SIGKILL)
        for child in self.children:
            child.kill()
        self._stack.close()
        connections[self.alias].close()
        del connections[self.alias]
        del connections.settings[self.alias]
