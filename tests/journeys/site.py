"""One site of the journeys: a database of its own, its diary, and the workers on it."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psutil
from celery import Celery
from django.db import connections
from django.test import override_settings

from django_mq.integrations.celery import known  # noqa: F401 - as in a project that names its broker in no setting
from django_mq.models import History, Message, Queue, WorkerSession
from tests.journeys.worker import Worker
from tests.settings.databases import from_url
from tests.support.resting import is_at_rest
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

ROOT = Path(__file__).parents[2]


class Site:
    """A site, seen from a process that publishes and looks; its workers are other processes."""

    #: Whether its workers are on another broker, which has what they retry and reject.
    is_bridged = False

    def __init__(self, url: str, directory: Path, **mq: Any) -> None:
        self.url = url
        self.directory = directory
        self.alias = f"journey_{uuid4().hex[:8]}"
        self._mq = {"REDIS_PREFIX": self.alias, **mq}
        self._stack = ExitStack()

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of the site's processes."""
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.journeys.project.settings",
            "DATABASE_URL": self.url,
            "JOURNEY_MQ": json.dumps(self._mq),
            "JOURNEY_DIRECTORY": str(self.directory),
            "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)])),
            **more,
        }

    def migrate(self) -> None:
        """Make the tables."""
        self.run("django", "migrate", "--verbosity", "0")

    def run(self, *command: str) -> str:
        """Run a module of Python's in a process of the site; return what it said."""
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-m", *command],
            env=self.environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def celery(self, *command: str) -> str:
        """Run a Celery command from a process of its own; return what it said."""
        return self.run("celery", "-A", "tests.journeys.project.app", *command)

    def worker(self, *options: str, name: str = "worker", **environment: str) -> Worker:
        """Return a worker to enter; two processes unless the options say otherwise."""
        options = options if {"-c", "-P"} & set(options) else ("-c", "2", *options)
        return Worker(self.environment(**environment), self.directory, name, options)

    # Publishing.

    @cached_property
    def app(self) -> Celery:
        """The site's Celery app in this process."""
        return Celery("journey", broker=f"django-mq:///{self.alias}", set_as_current=False)

    @property
    def asking(self) -> Celery:
        """The Celery app on the broker of its workers."""
        return self.app

    def send(self, task: str, *args: Any, **options: Any) -> str:
        """Publish a task; return its id."""
        return str(self.app.send_task(task, args, ignore_result=True, **options).id)

    def declare(self, name: str, **options: Any) -> None:
        """Create a queue as an operator does."""
        Queue.objects.using(self.alias).create(name=name, **options)

    def open(self, gate: str) -> None:
        """Let the tasks go on that wait at a gate."""
        (self.directory / gate).touch()

    def freeze(self, worker: Worker) -> None:
        """Suspend a worker between two transactions: within one, its locks would suspend everybody else."""

        def suspended() -> bool:
            worker.signal(signal.SIGSTOP)
            wait_until(lambda: worker.process.status() == psutil.STATUS_STOPPED)
            if is_at_rest(self.url):
                return True
            worker.signal(signal.SIGCONT)
            return False

        wait_until(suspended, lambda: f"a moment without a transaction: {self.story()}")

    # Looking.

    def rows(self, **only: Any) -> list[Message]:
        """The live messages, oldest first."""
        return list(Message.objects.using(self.alias).filter(**only).order_by("id"))

    def states(self, **only: Any) -> Counter[str]:
        """How many live messages are in each state."""
        return Counter(Message.Status(row.state).name.lower() for row in self.rows(**only))

    def finished(self, **only: Any) -> list[History]:
        """The history, oldest first."""
        return list(History.objects.using(self.alias).filter(**only).order_by("id"))

    def sessions(self) -> list[WorkerSession]:
        """The live worker sessions."""
        return list(WorkerSession.objects.using(self.alias).order_by("id"))

    def diary(self, **only: Any) -> list[dict[str, Any]]:
        """What the tasks wrote, in order."""
        path = self.directory / "diary"
        text = path.read_text() if path.exists() else ""
        # A line without its end is still being written: a reader may see half of a write.
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if only.items() <= line.items()]

    def wait_for_diary(self, count: int = 1, **only: Any) -> list[dict[str, Any]]:
        """Return the lines when there are so many."""
        wait_until(lambda: len(self.diary(**only)) >= count, lambda: f"{count} lines {only}: {self.story()}")
        return self.diary(**only)

    def wait_until_settled(self, **only: Any) -> None:
        """Return when no live message is left."""
        wait_until(lambda: not self.rows(**only), lambda: f"an empty table: {self.story()}")

    def story(self) -> str:
        """What a failed wait should tell."""
        logs = "\n".join(path.read_text(errors="replace")[-5000:] for path in self.directory.glob("*.log"))
        return f"{dict(self.states())}, diary ends {self.diary()[-5:]}\n{logs}"

    def __enter__(self) -> Self:
        settings = copy.deepcopy(connections.settings["default"])
        connections.settings[self.alias] = {**settings, "OPTIONS": {}, **from_url(self.url)}
        mq = {**self._mq, "DATABASE": self.alias}
        self._stack.enter_context(override_settings(DJANGO_MQ=mq))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if "app" in vars(self):
            self.app.close()
        self._stack.close()
        connections[self.alias].close()
        del connections[self.alias]
        del connections.settings[self.alias]
