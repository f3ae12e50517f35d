"""Start the worker again when its code changes, as ``runserver`` does.

Django's reloader has the main thread, and the worker another one. When a file changes, the process ends, and its
parent starts it again.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.delivery.consumer.worker import Workers

#: How long the process waits at its end until the workers have given back their messages, in seconds.
GIVE_BACK_SECONDS = 5.0


def is_reloaded() -> bool:
    """Whether a reloader runs this thread: it handles the signals, and ends the process."""
    return threading.current_thread() is not threading.main_thread()


@contextmanager
def giving_back_at_exit(workers: Workers) -> Iterator[None]:
    """Have the workers give back their messages if the process ends meanwhile, in another thread."""
    over = threading.Event()

    def end() -> None:
        workers.stop(at_once=True)
        over.wait(GIVE_BACK_SECONDS)

    atexit.register(end)
    try:
        yield
    finally:
        over.set()
        atexit.unregister(end)
