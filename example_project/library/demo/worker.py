"""The workers: the real programs, in processes of their own."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING

from django.conf import settings

from library.demo.processes import Child
from library.demo.saying import say

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

#: The native queues need no mention: the worker consumes what ``consumers.py`` declares.
COMMAND = shlex.split("-m celery -A config worker --queues index --pool prefork --concurrency 2 --loglevel INFO")
#: A worker of Celery's own on RabbitMQ.
COMMAND_THERE = shlex.split(
    "-m celery -A config worker --queues library.index --hostname rabbit@%h --pool prefork --concurrency 2"
    " --loglevel INFO"
)
#: It sends the tasks on, and runs the handlers.
COMMAND_HERE = ["manage.py", "mq_worker"]


class Worker(Child):
    """A worker that is restarted when it dies."""

    def __init__(
        self, lock: int, command: list[str] = COMMAND, log: str = "worker.log", **environment: str
    ) -> None:
        path = settings.VAR_DIR / log
        path.write_bytes(b"")
        super().__init__(command, path, inherited=(lock,), DJANGO_DEBUG="0", **environment)
        #: How often it died in all.
        self.deaths = 0

    def revive(self) -> bool:
        """Restart the worker if it has died; return whether it had."""
        code = self.code
        if code is None:
            return False
        self.deaths += 1
        say(f"The worker died ({describe(code)}). Starting another.")
        self.kill()  # children that outlived it
        self.start()
        return True


class Workers:
    """All workers of a run: one, or, through RabbitMQ, one there and one here."""

    def __init__(self, lock: int, through: str | None) -> None:
        self._stack = ExitStack()
        self._all = [Worker(lock)]
        if through is not None:
            there = Worker(lock, COMMAND_THERE, LIBRARY_BROKER=through)
            self._all = [there, Worker(lock, COMMAND_HERE, "forwarding.log")]

    @property
    def deaths(self) -> int:
        """How often workers died in all."""
        return sum(worker.deaths for worker in self._all)

    def revive(self) -> bool:
        """Restart the workers that have died; return whether there were any."""
        deaths = [worker.revive() for worker in self._all]
        return any(deaths)

    def kill(self) -> None:
        """Kill the worker that runs the tasks."""
        self._all[0].kill()

    def log_end(self) -> str:
        """Return the last lines of each log."""
        return "\n".join(worker.log_end() for worker in self._all)

    def __enter__(self) -> Self:
        for worker in self._all:
            self._stack.enter_context(worker)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def describe(code: int) -> str:
    """Say what an exit code means."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
