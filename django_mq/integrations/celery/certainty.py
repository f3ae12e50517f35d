"""A pool of threads or green threads begins a task by itself: not before its lease is certain.

A pool of processes is given a task by the worker's loop when a process is free: ``loops.before_events``.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from django_mq.errors import SessionLost, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.session import Session

logger = logging.getLogger("django_mq.celery")

#: Time between two tries to have the lease confirmed, in seconds.
PAUSE_SECONDS = 0.5


def begin_if_certain(pool: Any) -> None:
    """Have the pool ask before each task; once for the pool's life. One of processes is left alone."""
    if pool.uses_semaphore or isinstance(pool.on_apply, _Apply):
        return
    pool.on_apply = _Apply(pool.on_apply)


class _Apply:
    """The pool's way to run a task in a slot of its own, with a question in front."""

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply = apply

    def __call__(self, *args: Any, accept_callback: Any = None, **options: Any) -> Any:
        session = getattr(_message_of(accept_callback), "session", None)
        if session is None:
            return self._apply(*args, accept_callback=accept_callback, **options)

        def accept(*given: Any) -> None:
            # The pool calls this in the slot, right before the task; an error keeps the task from running.
            if not _may_begin(session):
                raise SessionLost
            accept_callback(*given)

        return self._apply(*args, accept_callback=accept, **options)


def _may_begin(session: Session) -> bool:
    """Wait until the lease is certain; False if the messages that had not begun were given back meanwhile."""
    while not (session.certainty.holds or session.lost or session.retired):
        try:
            session.certainty.ensure()
        except SessionLost:
            return False
        except StoreError as error:
            logger.warning("A message waits for its lease to be confirmed: %s", error)
            time.sleep(PAUSE_SECONDS)
    return not (session.lost or session.retired)


def _message_of(accept_callback: Any) -> Any:
    """Return the message of the request whose method this is, None of any other callable."""
    request = getattr(accept_callback, "__self__", None)
    return getattr(request, "message", None)
