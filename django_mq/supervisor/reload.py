"""Start the worker again when its code changes, as ``runserver`` does.

Django's reloader has the main thread, and the worker another one. When a file changes, the process ends, and its
parent starts it again.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.utils import autoreload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.delivery.consumer.worker import Workers

#: How long the process waits at its end until the workers have given back their messages, in seconds.
GIVE_BACK_SECONDS = 5.0


def run_with_reloader(work: Callable[[], None]) -> None:
    """Do the work in a thread, in a process that starts again when its code changes."""
    autoreload.autoreload_started.connect(_watch_handlers)
    autoreload.run_with_reloader(work)


def _watch_handlers(sender: autoreload.BaseReloader, **_: Any) -> None:
    # Python forgets a module that raises while it is imported, and the reloader does not watch it then.
    for app in apps.get_app_configs():
        for pattern in ("consumers.py", "consumers/**/*.py"):
            sender.watch_dir(Path(app.path), pattern)


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
