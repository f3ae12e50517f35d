"""A site whose tasks go through its database to RabbitMQ, where its workers are Celery's own."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from celery import Celery
from kombu import Connection

from tests.journeys.site import ROOT, Site
from tests.services.processes import tethered
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from tests.journeys.worker import Worker

#: The queues of the journeys' tasks.
QUEUES = ("celery", "brittle", "once", "buried", "strict", "gone")


class BridgedSite(Site):
    """The same site, seen in the same way. What is left in RabbitMQ is deleted at its end."""

    is_bridged = True

    def __init__(self, url: str, directory: Path, rabbitmq_url: str, **mq: Any) -> None:
        self._rabbitmq_url = rabbitmq_url
        self._prefix = uuid4().hex[:8]
        bridges = {
            name: {"url": rabbitmq_url, "declare": True, "routing_key": self.there(name), "results": True}
            for name in QUEUES
        }
        super().__init__(url, directory, BRIDGES=bridges, QUEUES={name: {"bridge": name} for name in QUEUES}, **mq)
        self._forwarding: subprocess.Popen[bytes] | None = None

    def there(self, queue: str) -> str:
        """Return what a queue is called in RabbitMQ."""
        return f"{self._prefix}.{queue}"

    def declare(self, name: str, **options: Any) -> None:
        """Create a queue as an operator does, with a bridge."""
        super().declare(name, **({"other_options": {"bridge": name}} if name in QUEUES else {}), **options)

    def worker(self, *options: str, name: str = "worker", **environment: str) -> Worker:
        """Return a worker on RabbitMQ to enter."""
        listed = list(options)
        if "-Q" in listed:
            place = listed.index("-Q") + 1
            listed[place] = ",".join(self.there(queue) for queue in listed[place].split(","))
        there = {"JOURNEY_BROKER": self._rabbitmq_url, "JOURNEY_QUEUE": self.there("celery")}
        return super().worker(*listed, name=name, **there, **environment)

    @cached_property
    def asking(self) -> Celery:  # type: ignore[override]
        """The Celery app on RabbitMQ."""
        return Celery("asking", broker=self._rabbitmq_url, set_as_current=False)

    def wait_until_settled(self, **only: Any) -> None:
        """Return when no live message is left, here or in RabbitMQ, of those that no worker has."""
        super().wait_until_settled(**only)
        with Connection(self._rabbitmq_url) as connection:
            wait_until(lambda: not self._left(connection), lambda: f"empty queues in RabbitMQ: {self.story()}")

    def _left(self, connection: Any) -> int:
        found = 0
        for queue in QUEUES:
            with connection.channel() as channel:
                found += channel.queue_declare(self.there(queue), durable=True, auto_delete=False).message_count
        return found

    def __enter__(self) -> Self:
        super().__enter__()
        with (self.directory / "forwarding.log").open("ab") as log:
            self._forwarding = subprocess.Popen(
                tethered(
                    [sys.executable, "-m", "django", "mq_worker", "--queues", ",".join(QUEUES)],
                    death_signal=signal.SIGKILL,
                ),
                env=self.environment(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if "asking" in vars(self):
            self.asking.close()
        assert self._forwarding is not None
        self._forwarding.terminate()
        self._forwarding.wait()
        with Connection(self._rabbitmq_url) as connection:
            for queue in QUEUES:
                connection.default_channel.queue_delete(self.there(queue))
        super().__exit__(kind, error, traceback)
