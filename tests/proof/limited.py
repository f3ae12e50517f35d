"""A worker of a queue with limits by key, which shows that too many of a key run at once."""

from __future__ import annotations

import fcntl
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.worker import Worker
from django_mq.limits import concurrency, throttle

if TYPE_CHECKING:
    from django_mq.delivery.codecs import ReceivedMessage

#: How many of a key may run at once; how many begin in a second, and at once after a pause.
AT_ONCE: Final = 3
PER_SECOND, BURST = 20.0, 5.0
#: How long a message runs.
RUN_SECONDS: Final = 0.05


def consume_limited(*, queue: str, directory: str, threads: int) -> None:
    """Handle messages within the limits. Each takes a file of its key, which a dead process gives back."""
    concurrency(queue, AT_ONCE, key="header:key", name="slots")
    throttle(queue, amount=PER_SECOND, seconds=1, burst=BURST, key="body:host", name="api")

    def handle(message: ReceivedMessage) -> None:
        with ExitStack() as stack:
            key = str(message.headers["key"])
            if not any(_is_taken(stack, Path(directory, f"{key} {number}")) for number in range(AT_ONCE)):
                Path(directory, "clash").touch()
            threading.Event().wait(RUN_SECONDS)

    worker = Worker([Handler(queue=queue, function=handle, credit=20, time_limit_seconds=None)], threads=threads)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def _is_taken(stack: ExitStack, path: Path) -> bool:
    # Each open file has a lock of its own, also within one process.
    file = stack.enter_context(path.open("a"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
