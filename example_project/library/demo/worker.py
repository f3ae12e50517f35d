"""The Celery worker: the real program, in a process of its own."""

from __future__ import annotations

import shlex

from django.conf import settings

from library.demo.processes import Child
from library.demo.saying import say

#: The native queues need no mention: the worker consumes what ``consumers.py`` declares.
COMMAND = shlex.split("-m celery -A config worker --queues index --pool prefork --concurrency 2 --loglevel INFO")


class Worker(Child):
    """A worker that is restarted when it dies."""

    def __init__(self, lock: int) -> None:
        log = settings.VAR_DIR / "worker.log"
        log.write_bytes(b"")
        super().__init__(COMMAND, log, inherited=(lock,), DJANGO_DEBUG="0")
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


def describe(code: int) -> str:
    """Say what an exit code means."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
