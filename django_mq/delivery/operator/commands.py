"""A worker is told what to do: its session's row says so, then a hint makes it renew at once and read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.hints import tell_workers
from django_mq.errors import OutOfRange
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from django_mq.engine.worker_mode import WorkerMode

#: Most credit that can be given.
MOST_CREDIT = 1_000_000


def send_command(
    session_id: int, *, mode: WorkerMode | None = None, credit: int | None = None, using: str | None = None
) -> bool:
    """Tell a worker session to work, to be quiet or to stop, or give each of its consumers this credit.

    ``credit`` 0 gives them their own again. It follows at once where hints reach it, otherwise with its next
    heartbeat, and as long as the session lasts. Returns whether there is such a session. Raises OutOfRange.
    """
    if credit is not None and not 0 <= credit <= MOST_CREDIT:
        raise OutOfRange(f"The credit is {credit}; give 0 to {MOST_CREDIT:,}, 0 for the consumers' own.")
    alias = using or conf.load().DATABASE
    found = shared_store(alias).send_command(session_id, mode=mode, credit=credit)
    if found:
        tell_workers(using=alias)
    return found
