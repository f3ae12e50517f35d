"""Send a command to a worker: write it into the session's row, then hint, so that the worker reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.hints import tell_workers
from django_mq.errors import OutOfRange
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from django_mq.engine.decisions.worker_mode import WorkerMode

#: The largest credit.
MOST_CREDIT = 1_000_000


def send_command(
    session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None, using: str | None = None
) -> bool:
    """Tell a session to work, to be quiet or to stop, or give each of its consumers this credit, 0 for their own.

    The worker follows at once if hints reach it, otherwise with its next heartbeat, as long as the session lasts.
    Return whether there is such a session. Raises OutOfRange.
    """
    if credit is not None and not 0 <= credit <= MOST_CREDIT:
        raise OutOfRange(f"The credit is {credit}; give 0 to {MOST_CREDIT:,}, 0 for the consumers' own.")
    alias = using or conf.load().DATABASE
    found = shared_store(alias).sessions.send_command(session_id, mode=mode, credit=credit)
    if found:
        tell_workers(using=alias)
    return found
